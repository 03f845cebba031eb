/* SPDX-License-Identifier: Apache-2.0
 *
 * OmniKV: a few layers, the filters, choose the tokens that the layers below
 * them attend.
 *
 *   layers: filters f1 < f2 < .. attend everything, as do the layers above f1
 *     and `wait` layers below each filter; every other layer follows the
 *     nearest filter above it. By default: 2, 8 and 18 of 32 layers; from 16
 *     layers on these times L / 32, halves rounded up; below that only
 *     max(1, L div 4), at most L - 1, with wait=0
 *   every decode step, at a filter, for its query heads h and candidates c:
 *     x[h][c] by score: prob: arithmetic 4 over the candidates alone;
 *       logit: arithmetic 1; dot: the same with scale 1
 *     m[c] = the largest x[h][c] of all query heads of the layer (arithmetic 2)
 *     rank[c] by selector:
 *       last:     m of the current query
 *       uniform:  the sum of m over the last `window` queries, each its own m
 *       exp:      the sum of RN(m * 2^-age) over them, age 0 the current one;
 *                 both sums are fixed as in arithmetic 4, rounded once
 *     the layers that follow attend, at the same step and with every head, the
 *     best k candidates and every token that is no candidate; without a
 *     message (a trace without the filter) they attend everything
 *   candidates are tokens sink .. end - 1; votes = 1 (last) or window;
 *     inside = max(0, votes - (t - P)), the queries of the prompt that vote:
 *     prompt:  end = P; for uniform and exp P - inside, and k becomes
 *              max(1, k - inside)
 *     history: end = t - 1
 *     and then end = min(end, t - recent)
 *   a prompt read in chunks (prefill=N): each chunk after the first, tokens
 *     a .., attends in layers that follow as a decode step does; candidates are
 *     sink .. a - recent - 1; with every selector m[c] is the largest, over
 *     heads, of the mean over the chunk's queries: for prob the mean of the
 *     probabilities, their sum fixed as in arithmetic 4; for logit and dot the
 *     value of the mean query. So do DeltaKV's equation 1 and the engine of
 *     roles=sparse-vllm
 *   tier=host: in layers that follow, tokens sink .. P - recent - 1 get class 1
 *     at the end of the prompt: the host's memory, from which a step fetches
 *     those it attends (the ledger's `fetched`). Generated tokens stay on the
 *     device
 *
 * The message is a bit a token. Scores are in the lane's state only from
 * observe to publish of the same step, so they are not charged. Queries that
 * vote are kept and charged, also on layers that do not choose.
 *
 * Hao et al. 2025, OmniKV: Dynamic Context Selection for Efficient Long-Context
 * LLMs. Paper and authors' code have four selectors and leave open:
 * - The code's default takes the softmax before the largest head (prob, the
 *   default here); its example configuration takes the logits (`last` there:
 *   score=logit). The two choose differently whenever a head has small logits.
 * - The code ranks window queries at the position of the current one, because
 *   it passes on one position for all. Here each query has its own.
 * - The code rounds the chosen share down, to 0 for a short prompt. Here at
 *   least one token is chosen.
 *
 * roles=sparse-vllm follows the same authors' engine. `layers` are those that
 * attend everything. The default is the filters and all layers above f1. Models
 * of 28 layers have 0, 1, 2, 4, 7, 14, and of 64 layers 0 to 5, 17, 29, 40
 * (DeltaKV's Table 7). The last of each run of them chooses for the layers up
 * to the next. Candidates are the history without 64 sinks and 512 recent
 * tokens; q . k ranks them, and 4096 are taken. Everything is on the device.
 * With prefill=N it also selects within the prompt, as that engine does.
 *
 * Family: read. Acts: every step. Needs: a message from layer to layer; host
 * memory. Bound: t stored; attended where a layer follows k + t - P, of history
 * k + sink + recent. Bytes: t (R + 1), of which P R on the host; `window` G d e
 * more with selector=uniform or exp. Gather: the token. Reduce: largest
 * probability over a layer's heads; later layers read the same. Sample: top-k.
 * Cost: at a filter O(n d) a head and step (`window` times that while the
 * candidates change); at others O(n).
 */
#include "ref/methods/omnikv.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"
#include "ref/parts/ring.h"
#include <math.h>
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static void fall_to(int *x, int value) {
  if (*x == KV_UNSET) *x = value;
}

static void fill_in(const kv_shape *shape, params *o) {
  bool sparse = o->roles == SPARSE_VLLM;
  if (sparse)
    kv_full_layers(shape, &o->list);
  else
    kv_filter_layers(shape, &o->list);
  fall_to(&o->wait, sparse || shape->n_layers < KV_FEW_LAYERS ? 0 : 1);
  fall_to(&o->score,
          sparse && o->selector == LAST ? KV_VOTE_DOT : KV_VOTE_PROB);
  fall_to(&o->candidates, sparse ? HISTORY : PROMPT);
  fall_to(&o->sink, o->candidates == HISTORY ? 64 : 0);
  fall_to(&o->recent, o->candidates == HISTORY ? 512 : 0);
  fall_to(&o->tier, sparse ? DEVICE : HOST);
}

static kv_rc resolve_k(const kv_shape *shape, params *o, kv_err *e) {
  bool named = o->k != KV_UNSET, shared = !isnan(o->share) && o->share > 0;
  int k = shared ? kv_open_share(o->share, shape->prompt_len) : 0;
  if (named && shared && o->k != k)
    return kv_fail(e, KV_REFUSED,
                   "omnikv: k=%d and share=%g, which is %d of %d tokens, "
                   "contradict each other; give only one",
                   o->k, (double)o->share, k, shape->prompt_len);
  if (named && !shared) o->share = 0;
  if (named) return KV_OK;
  if (o->roles == SPARSE_VLLM && !shared) {
    o->share = 0;
    o->k = 4096;
    return KV_OK;
  }
  if (!shared) o->share = 0.067f;
  o->k = kv_open_share(o->share, shape->prompt_len);
  return KV_OK;
}

static kv_rc check(const params *o, kv_err *e) {
  if (o->selector != LAST && o->score != KV_VOTE_PROB)
    return kv_fail(e, KV_REFUSED,
                   "omnikv: selector=uniform and exp add probabilities; use "
                   "score=prob or selector=last");
  if (o->selector != LAST && o->candidates == HISTORY)
    return kv_fail(e, KV_REFUSED,
                   "omnikv: selector=uniform and exp choose among the prompt "
                   "only; use candidates=prompt or selector=last");
  if (o->wait && o->roles == SPARSE_VLLM)
    return kv_fail(
        e, KV_REFUSED,
        "omnikv: wait=%d has no effect with roles=sparse-vllm, which names "
        "every layer that attends to everything; leave wait out",
        o->wait);
  return KV_OK;
}

static void say_needs(const kv_shape *shape, const params *o, kv_needs *needs) {
  int group = kv_group(shape), votes = voters(o);
  size_t n = (size_t)shape->n_tokens, ring = kv_ring_floats(shape, votes);
  needs->prompt_rows = shape->chunk ? KV_ALL_ROWS : votes - 1;
  needs->chunks = true;
  needs->decode_rows = true;
  needs->want = KV_Q;
  needs->across = KV_DOWN;
  needs->message = KV_CHOSEN_BYTES(n);
  needs->lane_state = (AHEAD + ring + (size_t)votes * n) * sizeof(float);
  needs->work = KV_VOTE_WORK(group, n, shape->d);
  if (shape->chunk) {
    needs->lane_state =
        sums_at(shape, votes) + KV_CHUNK_SUM(group, n, shape->d);
    needs->work += (size_t)group * (size_t)shape->d * sizeof(float);
  }
  if (o->tier == HOST) {
    needs->classes = 2;
    needs->host = 1u << HOST;
  }
  if (o->selector == LAST) return;
  needs->metas = 1;
  needs->meta[0] = (kv_meta){.name = "queries that vote",
                             .per = KV_PER_LANE,
                             .bytes = ring * sizeof(float)};
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  fill_in(shape, o);
  kv_rc rc = kv_open_layers("omnikv", "layers", shape->n_layers, o->layers,
                            &o->list, e);
  if (!rc) rc = check(o, e);
  if (!rc) rc = resolve_k(shape, o, e);
  if (!rc) say_needs(shape, o, needs);
  return rc;
}

/* --- the state of a lane -------------------------------------------------- */

/* Where the last step's candidates ended; the queries that vote, token t at
 * index t % votes; the largest x of the lane's heads, by vote and candidate. */
static int32_t *last_end(const kv_at *at, const kv_lane *l) {
  return kv_own(at, l);
}

static float *ring_of(const kv_at *at, const kv_lane *l) {
  return (float *)kv_own(at, l) + AHEAD;
}

static float *best_of(const kv_at *at, const kv_lane *l, int token) {
  const params *o = at->params;
  size_t place = (size_t)(token % voters(o)), n = (size_t)at->shape->n_tokens;
  return ring_of(at, l) + kv_ring_floats(at->shape, voters(o)) + place * n;
}

/* The oldest query that votes. */
static int oldest(const params *o, int step) {
  return step > voters(o) ? step - voters(o) : 0;
}

/* --- a filter ------------------------------------------------------------- */

static void vote(const kv_at *at, const kv_lane *l, int token,
                 const contest *c) {
  const params *o = at->params;
  size_t place = (size_t)(token % voters(o));
  size_t each = (size_t)l->queries * (size_t)at->shape->d;
  kv_vote_best(at, l, ring_of(at, l) + place * each, (kv_vote)o->score,
               c->first, c->end - c->first, best_of(at, l, token));
}

/* Rows of a chunk of the prompt; the first chunk has no candidates. */
static void observe_chunk(const kv_at *at, const kv_lane *l,
                          const kv_rows *rows) {
  const params *o = at->params;
  contest c = chunk_contest(o, at->shape, at->step);
  if (kv_row_attends(at->shape, at->step))
    kv_chunk_vote(at, l, rows, (kv_vote)o->score, c.first, c.end - c.first,
                  (char *)kv_own(at, l) + sums_at(at->shape, voters(o)),
                  best_of(at, l, at->step - 1));
}

/* Stores the queries and, in decoding, lets them vote: all of them if the
 * candidates changed since the last step, else the newest. */
static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  const kv_shape *s = at->shape;
  if (role_of(o, s->n_layers, at->layer) != KV_CHOOSES) return;
  kv_ring_add(at, lane, rows, voters(o), ring_of(at, lane));
  if (at->step <= s->prompt_len) {
    observe_chunk(at, lane, rows);
    return;
  }
  contest c = contest_at(o, s->prompt_len, at->step);
  int32_t *end = last_end(at, lane);
  int from = *end == c.end ? at->step - 1 : oldest(o, at->step);
  *end = c.end;
  for (int t = from; t < at->step && c.end > c.first; t++)
    vote(at, lane, t, &c);
}

/* The largest of all heads of the layer, for one voting query. */
static void largest(const kv_at *at, const kv_lane *const *lane, int lanes,
                    int token, int n, float *m) {
  memcpy(m, best_of(at, lane[0], token), (size_t)n * sizeof *m);
  for (int l = 1; l < lanes; l++) {
    const float *best = best_of(at, lane[l], token);
    for (int i = 0; i < n; i++) m[i] = kv_max(m[i], best[i]);
  }
}

/* score[i] of candidate first + i. */
static void count_votes(const kv_at *at, const kv_lane *const *lane, int lanes,
                        int n, float *score) {
  const params *o = at->params;
  if (o->selector == LAST) {
    largest(at, lane, lanes, at->step - 1, n, score);
    return;
  }
  int64_t *sum = KV_TAKE(at->work, int64_t, n);
  memset(sum, 0, (size_t)n * sizeof *sum);
  float weight = 1;
  for (int t = at->step - 1; t >= oldest(o, at->step); t--) {
    largest(at, lane, lanes, t, n, score);
    for (int i = 0; i < n; i++) score[i] *= weight;
    at->kernels->fix_add(score, n, sum);
    if (o->selector == EXP) weight *= .5f;
  }
  kv_scores(sum, n, score);
}

static bool publish(const kv_at *at, const kv_lane *const *lane, int lanes,
                    void *message) {
  const params *o = at->params;
  const kv_shape *s = at->shape;
  if (role_of(o, s->n_layers, at->layer) != KV_CHOOSES) return false;
  bool chunk = at->step <= s->prompt_len;
  if (!kv_row_attends(s, at->step)) return false;
  contest c = chunk ? chunk_contest(o, s, at->step)
                    : contest_at(o, s->prompt_len, at->step);
  int n = c.end - c.first;
  float *score = KV_TAKE(at->work, float, n);
  if (n && chunk) largest(at, lane, lanes, at->step - 1, n, score);
  if (n && !chunk) count_votes(at, lane, lanes, n, score);
  kv_choose_tokens(at, score, c.first, n, c.k, message);
  return true;
}

/* --- a layer that follows ------------------------------------------------- */

static void view(const kv_at *at, const kv_lane *lane, const kv_query *q,
                 kv_view *out) {
  (void)q;
  kv_view_chosen(at, lane, role_of(at->params, at->shape->n_layers, at->layer),
                 out);
}

/* At the end of the prompt or a chunk, its new candidates go to the host. */
static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  const kv_shape *s = at->shape;
  int end = s->prompt_len - o->recent, n = 0;
  if (o->tier != HOST || at->step != s->prompt_len) return;
  if (role_of(o, s->n_layers, at->layer) != KV_FOLLOWS) return;
  int32_t *list = KV_TAKE(at->work, int32_t, lane->n);
  for (int i = first_gone(o, s, at->step); i < end; i++) list[n++] = i;
  if (n) kv_retier(lane, n, list, HOST);
}

const kv_method kv_method_omnikv = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "omnikv",
    .title = "a few layers choose the tokens that later layers attend",
    .paper = "Hao et al. 2025, OmniKV: Dynamic Context Selection for Efficient "
             "Long-Context LLMs, OpenReview:ulCAPXYXfa",
    .spreads = true,
    .view = view,
    .observe = observe,
    .compress_lane = compress_lane,
    .publish = publish,
};
