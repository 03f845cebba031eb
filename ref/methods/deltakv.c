/* SPDX-License-Identifier: Apache-2.0
 *
 * DeltaKV: stores an old token as its difference from a few similar tokens.
 *
 *   layers: those of `full` keep everything; the last of each run of them
 *     chooses for the layers below it, up to the next (omnikv,
 *     roles=sparse-vllm). By default: of 28 layers 0, 1, 2, 4, 7, 14, of 64
 *     layers 0 to 5, 17, 29, 40 (the paper's Table 7), else the filters of
 *     omnikv and all above the first
 *   vector of a token, w = H (d + d_v) elements: K of all KV heads of the
 *     layer, each turned back by the token's own position (FORMATS.md, Before
 *     RoPE), then V of all of them
 *   all other layers, after the prompt and after every step, R = recent,
 *   m = (t - sink) div R: coded are tokens sink .. sink + max(0, m - 1) R - 1,
 *   so the newest R to 2 R - 1 are not. Code those not yet coded, from the
 *   first of them, f, on:
 *     reference: i < sink, or i mod stride = 0 (phase=absolute),
 *       (i - f) mod stride = 0 (phase=block)
 *     R_i = the `nearest` references before i that are nearest to it by L2
 *     z_i = f_c(x_i) - f_c(mean of R_i);  x^_i = f_d(z^_i) + mean of R_i
 *     a token without a reference before it stays as it is
 *   every decode step, on a layer that chooses: candidates are coded tokens and
 *     the references among them; a candidate's value is the largest `score`
 *     over the layer's query heads. The layers that follow attend the best of
 *     n candidates, `top` of them or max(1, floor(RN(r * n))), the sinks and
 *     the newest; they read a token as x^, its K turned forward, and a
 *     reference as it is
 *   retrieve=all: every layer attends everything
 *   a prompt read in chunks (prefill=N): the rows of each chunk after the first
 *     attend as decode steps do; candidates are the tokens coded when the chunk
 *     began and the references among them; a candidate's value is the largest,
 *     over heads, of the mean over the chunk's queries, as in omnikv (the
 *     paper's equation 1); the best `prompt_top` win; then the end of the chunk
 *     codes as a step does
 *
 * To the bit: ref/parts/latents.h, which also has the compressors.
 * compressor=none: x^ is the mean. references=none: z = f_c(x), x^ = f_d(z^),
 * an ablation (the paper's Table 5, with latents half as wide again). It needs
 * weights trained that way: `kvreplay train deltakv:references=none`. No swiglu
 * weights give every vector back: swiglu has no bias, and |SiLU(y)| <= |y|, so
 * f_c(x) is of second order in x, and short vectors are lost.
 *
 * Hao et al. 2026, DeltaKV: Residual-Based KV Cache Compression via Long-Range
 * Similarity. The authors' code is Sparse-vLLM, with a Hugging Face path.
 * Paper, engine and Hugging Face path differ, and each has a parameter:
 * - The paper's references are every s-th token of the text (phase=absolute,
 *   the default). Both programs count anew in every block that they code
 *   (block), so 13 of 128 are references instead of 12.8.
 * - The paper's Algorithm 1 adds decoded tokens to the references (refs=recon),
 *   after the token itself. Both programs keep references as they are
 *   (refs=raw, the default), and so does training.
 * - The engine does not code references and reads a chosen one as it is
 *   (self=no, the default). The Hugging Face path also codes references, and
 *   one may use itself; it reads what it decodes (self=yes).
 * - With fewer references than `nearest`, both programs average in references
 *   that come later. Here the mean covers those that exist.
 * - Sinks are 8 and R is 128, as in the evaluation command, which has r = 0.17.
 *   The engine's own defaults are 64, 512 and 4096 tokens. The engine values
 *   tokens by q . k (score=dot, the default), and its candidates end R before
 *   the newest. The Hugging Face path uses the softmax over the candidates,
 *   which end where coded tokens end: so here.
 * - 4-bit latents have one scale and minimum per vector, as in the code when
 *   the paper was written, or per `group` elements. Both are fp16 here and bf16
 *   there; with a scale of 0 the codes are 0 here, and the code adds 1e-6 to
 *   the scale. The code computes codes and their values in bf16, each operation
 *   rounded; here in binary32, each value by one fma.
 * - The paper's share is KR = F/L + (S/L) (1/s + dc/w), F full and S other
 *   layers. The ledger also has the ids of references and positions, and no
 *   latent vectors for references. Its CR = F/L + (S/L) r gives 30 % for r =
 *   0.1704, not for the 0.3 of its table. Its 7.2 % for 4 bits everywhere is
 *   11.3 % by its own rule, and 11.6 % counted at its geometry
 *   (kept=int4:latent=int4).
 * - The paper computes the size of full layers and references in 4 bits and
 *   never runs it. kept=int4 does: K of a head (rotated, as in the engine) and
 *   V each share one scale and minimum, as a latent vector does. It codes all
 *   tokens of full layers and the references of other layers, sinks included,
 *   up to the end of the coded tokens. It does so before other tokens are coded
 *   by them. A reference is then its decoded codes, in distances, in means and
 *   when read.
 * - Both programs read long prompts in chunks. A chunk attends the best
 *   num_top_tokens_in_prefill. The engine's default is as many as in a step
 *   (prompt_top=0, the default). The Hugging Face path and the evaluation
 *   command have 4096; the command's chunk is longer than any prompt. That path
 *   always values a chunk's candidates by logits (score=logit); here score
 *   holds for chunks and decoding. Without prefill=N a prompt is attended
 *   whole. The engine admits only requests that can stay: `kvreplay run
 *   --together --admit peak`.
 *
 * All requests share the weights, so they are in `asset` only. A replay keeps
 * the rows of x^ and charges nothing for them, because a store makes them anew
 * from latents and references. So a step is charged (`read`) the block of each
 * attended latent vector and the tokens that it names, each once per lane. With
 * refs=recon it is also charged the tokens that these name. A coded reference
 * that is read only because it is named is charged as uncoded K and V. While a
 * layer attends, its rows x^ exist in the trace's type: they are in `peak`
 * alone (sim/replay/measure/cost.h). temporary=layer, the default: one layer's
 * rows at a time, so one buffer is enough. temporary=group, as in Sparse-vLLM:
 * the layers that follow one choice get temporary slots together, each in its
 * own storage. The slots are free when the last of these layers has attended.
 * tier=host: latents are in the host's memory, the tokens they name on the
 * device. The caches that the paper puts before them are `kvreplay run
 * --cache`.
 *
 * Family: latent. Acts: after the prompt, every `recent` steps. Needs: a
 * trained compressor (a file); RoPE; one message a step. Bound: t. Bytes: full
 * layers t R; others (sink + newest + 1 / stride of the rest) R. A coded token
 * takes (2 dc + 4 nearest + 4) / H, dc the width of its latent. Gather: the
 * token. Reduce: largest q k over a layer's heads; later layers read the same.
 * Sample: top-k. Cost: a token is coded once, w * (references + 2 (hidden +
 * latent) ..).
 */
#include "ref/methods/deltakv.h"
#include "ref/parts/parts.h"
#include <math.h>
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static bool is_full(const params *o, int layer) {
  int i = kv_layer_above(&o->list, layer);
  return i >= 0 && o->list.layer[i] == layer;
}

static bool skips(const void *o, int layer) { return is_full(o, layer); }

static kv_rc resolve_top(params *o, kv_err *e) {
  bool named = o->top != KV_UNSET && o->top > 0;
  bool shared = !isnan(o->r) && o->r > 0;
  if (named && shared)
    return kv_fail(
        e, KV_REFUSED,
        "deltakv: top=%d and r=%g set the same number; give only one", o->top,
        (double)o->r);
  if (!named && !shared) o->r = 0.17f;
  if (!named) o->top = 0;
  if (named) o->r = 0;
  return KV_OK;
}

static void say_needs(const kv_shape *shape, const params *o, kv_needs *needs) {
  int n = shape->n_tokens;
  size_t vote = KV_VOTE_WORK(kv_group(shape), n, shape->d) + 5 * (size_t)n;
  needs->every = 1;
  needs->chunks = true;
  needs->lane_state = sums_at(shape, o);
  if (shape->chunk) {
    needs->lane_state += KV_CHUNK_SUM(kv_group(shape), n, shape->d);
    vote += (size_t)kv_group(shape) * (size_t)shape->d * sizeof(float);
  }
  if (needs->work < vote) needs->work = vote;
  if (o->tier == HOST) {
    needs->classes = 2;
    needs->host = 1u << HOST;
  }
  if (o->retrieve == ALL) return;
  needs->prompt_rows = shape->chunk ? KV_ALL_ROWS : 0;
  needs->decode_rows = true;
  needs->want = KV_Q;
  needs->across = KV_DOWN;
  needs->message = KV_CHOSEN_BYTES(n);
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  int compressions = shape->n_tokens / o->recent + 1;
  kv_full_layers(shape, &o->list);
  kv_rc rc =
      kv_open_layers("deltakv", "full", shape->n_layers, o->full, &o->list, e);
  if (!rc) rc = resolve_top(o, e);
  if (!rc)
    rc = kv_open_residual(shape, "deltakv", &o->by, compressions, skips, o,
                          needs, e);
  if (!rc) say_needs(shape, o, needs);
  return rc;
}

static kv_role role_of(const kv_at *at) {
  const params *o = at->params;
  return o->retrieve == ALL
             ? KV_WHOLE
             : kv_full_role(&o->list, at->shape->n_layers, at->layer);
}

static int temporary_from(const kv_shape *shape, const void *p, int layer) {
  const params *o = p;
  kv_at at = {.shape = shape, .params = p, .layer = layer};
  bool together = o->temporary == GROUP && role_of(&at) == KV_FOLLOWS;
  return together ? o->list.layer[kv_layer_above(&o->list, layer)] + 1 : layer;
}

/* --- the state of a lane ------------------------------------------------- */

static int32_t *end_of(const kv_at *at, const kv_lane *l) {
  return kv_own(at, l);
}

static float *best_of(const kv_at *at, const kv_lane *l) {
  return (float *)(void *)((char *)kv_own(at, l) + VALUES);
}

/* --- a layer that chooses ------------------------------------------------ */

static bool chooses(const kv_at *at) {
  return kv_row_attends(at->shape, at->step) && role_of(at) == KV_CHOOSES;
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  const kv_shape *s = at->shape;
  int n = contenders(o, s, at->step);
  if (!chooses(at) || n <= 0) return;
  if (at->step > s->prompt_len)
    kv_vote_best(at, lane, rows->q, (kv_vote)o->score, o->by.sink, n,
                 best_of(at, lane));
  else
    kv_chunk_vote(at, lane, rows, (kv_vote)o->score, o->by.sink, n,
                  (char *)kv_own(at, lane) + sums_at(s, o), best_of(at, lane));
}

static bool publish(const kv_at *at, const kv_lane *const *lane, int lanes,
                    void *message) {
  const params *o = at->params;
  const kv_shape *s = at->shape;
  int n = contenders(o, s, at->step);
  if (!chooses(at)) return false;
  float *score = KV_TAKE(at->work, float, n);
  for (int i = 0; i < n; i++) score[i] = best_of(at, lane[0])[i];
  for (int g = 1; g < lanes; g++)
    for (int i = 0; i < n; i++)
      score[i] = kv_max(score[i], best_of(at, lane[g])[i]);
  kv_choose_tokens(at, score, o->by.sink, n,
                   winners(o, n, at->step <= s->prompt_len), message);
  return true;
}

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  (void)q;
  kv_view_chosen(at, lane, role_of(at), out);
}

/* --- a layer that is compressed ------------------------------------------ */

static void compress_layer(const kv_at *at, kv_lane *const *lane, int lanes) {
  const params *o = at->params;
  int from = *end_of(at, lane[0]);
  int end = compressed_end(o, at->step);
  bool full = is_full(o, at->layer);
  if (from < o->by.sink) from = o->by.sink;
  if (end <= from || (full && !o->by.kept)) return;
  kv_residual_keep(at, lane, lanes, &o->by, from, end, full);
  if (!full)
    kv_residual_compress(at, lane, lanes, &o->by, from, end,
                         o->tier == HOST ? HOST : -1);
  for (int g = 0; g < lanes; g++) *end_of(at, lane[g]) = end;
}

const kv_method kv_method_deltakv = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "deltakv",
    .title = "old tokens as differences from a few similar tokens",
    .paper = "Hao et al. 2026, DeltaKV: Residual-Based KV Cache Compression "
             "via Long-Range Similarity, arXiv:2602.08005",
    .spreads = true,
    .temporary_from = temporary_from,
    .view = view,
    .observe = observe,
    .compress_layer = compress_layer,
    .publish = publish,
};
