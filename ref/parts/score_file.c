/* SPDX-License-Identifier: Apache-2.0
 *
 * The scorer of a file: what somebody else's scorer gave to each token, as it
 * stands there. A file of scores is in safetensors with the metadata
 *
 *   format   kvscores
 *   version  1
 *   trace    identity of the trace whose tokens are scored (kvtrace info)
 *   scorer   what made it, for people
 *
 * and for each recorded layer a tensor layers.L.scores [KV heads, tokens], F32,
 * F16 or BF16: larger is kept longer. Tokens are those of the prompt, or more,
 * from the first on. A layer with a sliding window needs none, but with
 * windowed=compress. Where lanes are of query heads, each reads its KV head's
 * row.
 *
 * To the bit: score[i] = the number of the entry's token; of a token that the
 * file does not cover (of a later prompt, --turns) 2^100, more than any. A
 * score of 2^99 or more, either way, is refused, so that sums and products
 * which a method makes of scores stay numbers. Cost: O(n) a lane.
 */
#include "ref/parts/scorers.h"

#define LIMIT 0x1p99f /* less than KV_UNSCORED */

static const kv_tensor_ask tensors[] = {{.name = "layers.*.scores",
                                         .type = KV_T_F32,
                                         .rank = 2,
                                         .dim = {KV_DIM_KV_HEADS, KV_DIM_ANY},
                                         .unwindowed = true},
                                        {.name = NULL}};
const kv_asset_kind kv_scores_kind = {"kvscores", tensors};

/* What is in the metadata. */
static kv_rc check_file(const kv_asset *a, kv_err *e) {
  const char *version = kv_asset_meta(a, "version");
  char show[64];
  if (!version || version[0] != '1' || version[1])
    return kv_fail(e, KV_REFUSED, "%s: metadata version is %s; write 1",
                   a->path,
                   version ? kv_plain(version, sizeof show, show) : "missing");
  if (a->of_trace) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: metadata trace is missing; write the identity of the "
                 "trace that is scored, as kvtrace info prints",
                 a->path);
}

/* The scores of one layer: enough of them, and none too large. */
static kv_rc check_layer(const kv_shape *s, const kv_asset *a, int layer,
                         const kv_score_options *o, kv_err *e) {
  const kv_tensor *t = kv_asset_layer(a, layer);
  const float *score = t->data;
  int64_t n = t->dim[1];
  bool prompt = o->form == KV_FORM_PREFILL;
  int least = prompt ? s->prompt_len : s->n_tokens;
  if (!score) return KV_OK;
  if (n < least || n > s->n_tokens)
    return kv_fail(e, KV_REFUSED,
                   "%s: layer %d has scores of %lld tokens and needs those of "
                   "%d%s; the trace has %d",
                   a->path, layer, (long long)n, least,
                   prompt ? ", the prompt" : " to compress while decoding",
                   s->n_tokens);
  for (int64_t i = 0; i < t->count; i++)
    if (!(score[i] < LIMIT && score[i] > -LIMIT))
      return kv_fail(e, KV_REFUSED,
                     "%s: layer %d, KV head %lld, token %lld: the score is %g; "
                     "give numbers between -2^99 and 2^99",
                     a->path, layer, (long long)(i / n), (long long)(i % n),
                     (double)score[i]);
  return KV_OK;
}

static kv_rc open(const kv_shape *shape, const char *method, int budget,
                  kv_score_options *o, kv_needs *needs, kv_err *e) {
  const kv_asset *a = o->file.asset;
  (void)budget, (void)needs;
  if (o->w.window == KV_UNSET) o->w.window = 0;
  if (!a)
    return kv_fail(e, KV_USAGE,
                   "%s: score=file reads a file: write %s:score=file:scores="
                   "NAME.safetensors",
                   method, method);
  kv_rc rc = check_file(a, e);
  for (int i = 0; !rc && i < a->layers; i++)
    rc = check_layer(shape, a, a->layer[i], o, e);
  return rc;
}

static void score(const kv_at *at, const kv_lane *lane,
                  const kv_score_options *o, int first, int n, float *out) {
  const kv_tensor *t = &at->asset[o->tensor];
  for (int i = 0; i < n; i++)
    out[i] = kv_score_of(t, lane->kv_head, lane->id[first + i]);
}

const kv_scorer kv_scorer_file = {.name = "file", .open = open, .score = score};
