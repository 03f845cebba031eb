/* SPDX-License-Identifier: Apache-2.0
 *
 * ZSMerge: averages tokens that would be evicted into a few residual entries.
 *
 *   budget = residual + context + proximity (Br + Bc + Bp)
 *   every query row, rows ascending, over the entries i that it sees; s is one
 *   float column, 0 for a new entry:
 *     a = RN32(sum over the group's heads of RN(P * 2^40)) * 2^-40
 *     s[i] = fma(decay, s[i], a)
 *   merged entries weigh: logit += merge_bias * ln(weight) (arithmetic 1), and
 *   P is of the biased logits
 *
 *   variant=paper, after every token, prompt included (block 1):
 *     the last Bp entries are the proximity, those of class 1 the residual
 *     entries, the others the context; when the context has Bc + 1 entries:
 *       c = its entry of least score (ties: the earlier one), the one that just
 *           left the proximity included
 *       fewer than Br residual entries: c becomes one (class 1), where it is
 *       else c is merged into the residual entry most similar to it; with
 *       Br = 0 it is dropped
 *   variant=code, after the prompt, which entered at once, n > budget:
 *     the last Bp entries stay; of the others the best Bc by score; the other
 *     m, in order of position, in Br neighbouring groups of m div Br, the first
 *     m mod Br groups one more, each merged into its first, one by one
 *     new order: groups | best, best first | last Bp
 *   variant=code, after a decode step, n = budget + 1; the lane's order is
 *     residual 0..Br-1 | others Br..Br+Bc | ring of Bp - 1 | new:
 *       c = of the others the one of least score
 *       c is merged into the residual entry most similar to it, and the
 *       oldest of the ring takes its slot
 *
 * Similarity compares two keys as stored: dot is the chain of arithmetic 5, l2
 * minus the squared distance. The largest wins (ties: the earlier entry). A
 * merge is arithmetic 8 with the two weights; the residual entry keeps its slot
 * and its s. Weights sum to t (Br >= 1). proximity=N and context=N leave the
 * rest to what is not given; `code` needs Br >= 1, Bc >= 1, Bp >= 2.
 * FORMATS.md, Merged rows, says how means are stored and what that costs
 * (merged=fp32 is ours).
 *
 * Liu et al. 2025, ZSMerge: Zero-Shot KV Cache Compression for Memory-Efficient
 * Long-Context LLMs. The default follows the paper's Algorithm 1, which streams
 * the prompt like the rest. Differences of the authors' code or the paper's
 * text:
 * - The code compresses the prompt in one batch and averages neighbours without
 *   a search for similar ones: there at once, here by merges in order. Its
 *   victim is never the entry that just left the ring. A prompt within the
 *   budget leaves its first tokens as residual entries. Its merge_bias is 1,
 *   the paper's 0.6.
 * - The code keeps weights in fp16, which stop counting at 2048; here they are
 *   integers. A group's score (maximum or sum in the code) decides nothing;
 *   here it stays that of the first entry.
 * - The code sums scores over the heads of a group; the paper does not say.
 *   Here they are summed.
 * - The code's proximity is a tenth of the budget; the script of the paper's
 *   Table 2 uses 40 %.
 * - The paper calls a bias of 0 pure eviction, but merged entries then still
 *   take mass. Pure eviction is residual=0.
 * - The paper's section 4.1 mentions protected sinks and distances. Neither its
 *   Algorithm 1 nor the code has them: the oldest tokens go by score like the
 *   rest.
 *
 * Family: merge. Acts: every step. Needs: probabilities of every query. Bound:
 * min(t, B), of them at most Br with a weight above 1. Bytes: B (R + 9).
 * Gather: a residual and what is averaged into it. Reduce: probability,
 * decayed; merged entries gain by their weight. Sample: top-k, the rest merged.
 * Cost: O(n) a lane and row; a merge is O(Br * d) after it, O(d) in the code's
 * prompt, and a compression with merges O(n) once.
 */
#include "ref/methods/zsmerge.h"
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static int smaller(int a, int b) { return a < b ? a : b; }
static int larger(int a, int b) { return a > b ? a : b; }

/* Unset parameters get the authors' values, or the rest of the budget. */
static void resolve(params *o) {
  int b = o->budget;
  bool context = o->context != KV_UNSET, proximity = o->proximity != KV_UNSET;
  if (o->residual == KV_UNSET)
    o->residual = context && proximity ? b - o->context - o->proximity : 1;
  if (!proximity)
    o->proximity = context ? b - o->residual - o->context
                           : smaller(larger(2, b / 10), b - o->residual - 1);
  if (!context) o->context = b - o->residual - o->proximity;
  if (!(o->merge_bias == o->merge_bias)) /* a NaN: not given */
    o->merge_bias = o->variant == CODE ? 1.0f : 0.6f;
}

static kv_rc check(const params *o, kv_err *e) {
  int code = o->variant == CODE;
  int64_t sum = (int64_t)o->residual + o->context + o->proximity;
  if (sum != o->budget)
    return kv_fail(e, KV_REFUSED,
                   "zsmerge: residual=%d, context=%d and proximity=%d do not "
                   "add up to the budget of %d; leave one of them out",
                   o->residual, o->context, o->proximity, o->budget);
  if (o->residual < code || o->context < code || o->proximity < 1 + code)
    return kv_fail(e, KV_REFUSED,
                   "zsmerge: residual=%d, context=%d and proximity=%d must be "
                   "at least %d, %d and %d with variant=%s; raise the budget",
                   o->residual, o->context, o->proximity, code, code, 1 + code,
                   code ? "code" : "paper");
  return KV_OK;
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = kv_open_budget("zsmerge", o->budget, e);
  if (rc) return rc;
  if (o->budget < 4)
    return kv_fail(e, KV_REFUSED,
                   "zsmerge: a budget of %d is too small for its three parts; "
                   "give 4 or more",
                   o->budget);
  resolve(o);
  if ((rc = check(o, e))) return rc;
  needs->block = o->variant == PAPER;
  needs->prompt_rows = KV_ALL_ROWS;
  needs->decode_rows = true;
  needs->want = KV_P;
  needs->columns = 1;
  needs->column[0] = KV_FLOAT;
  needs->every = 1;
  needs->merges = o->residual > 0;
  needs->merged = needs->merges ? (kv_means)o->merged : KV_MEANS_TRACE;
  needs->merge_bias = needs->merges ? o->merge_bias : 0;
  needs->classes = o->variant == PAPER && o->residual > 0 ? CLASSES : 0;
  needs->work = 2 * (size_t)shape->d * sizeof(float) + 256;
  return KV_OK;
}

/* The group's sum is fixed point, rounded once (arithmetic 4). */
static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  float *score = kv_column_float(at, lane, 0);
  int64_t *sum = KV_TAKE(at->work, int64_t, rows->entries);
  memset(sum, 0, (size_t)rows->entries * sizeof *sum);
  for (int r = 0; r < rows->rows; r++) {
    int n = kv_rows_visible(rows, r);
    for (int h = 0; h < rows->heads; h++)
      at->kernels->fix_add(rows->p + kv_rows_at(rows, r, h) * rows->stride, n,
                           sum);
    for (int i = 0; i < n; i++) {
      score[i] = kv_fma(o->decay, score[i], kv_unfix(sum[i]));
      sum[i] = 0;
    }
  }
}

/* --- compress ------------------------------------------------------------- */

static float similarity(int metric, int d, const float *a, const float *b) {
  if (metric == DOT) return kv_dot(a, b, d);
  float acc = 0;
  for (int x = 0; x < d; x++) {
    float t = kv_sub(a[x], b[x]);
    acc = kv_fma(t, t, acc);
  }
  return -acc;
}

/* The entry of place[0..n), ascending, that is most similar to `entry`. */
static int most_similar(const kv_at *at, const kv_lane *lane, int entry, int n,
                        const int32_t *place) {
  const params *o = at->params;
  int d = at->shape->d, best = place[0];
  float *key = KV_TAKE(at->work, float, d),
        *other = KV_TAKE(at->work, float, d);
  float most = 0;
  kv_lane_key(lane, entry, key);
  for (int i = 0; i < n; i++) {
    kv_lane_key(lane, place[i], other);
    float like = similarity(o->metric, d, other, key);
    if (i > 0 && kv_key(like) <= kv_key(most)) continue;
    most = like;
    best = place[i];
  }
  return best;
}

static void merge(kv_lane *lane, int into, int from) {
  kv_merge(lane, into, from, (float)lane->weight[into],
           (float)lane->weight[from]);
}

/* --- compress: paper ------------------------------------------------------ */

/* context[i] = is entry i, of the first n, not a residual one? Residual ones go
 * into place, ascending; returns how many. */
static int split(const kv_lane *lane, int n, bool *context, int32_t *place) {
  int residual = 0;
  for (int i = 0; i < n; i++) {
    context[i] = kv_class_of(lane, i) != RESIDUAL;
    if (!context[i]) place[residual++] = i;
  }
  return residual;
}

static void drop(const kv_at *at, kv_lane *lane, int entry) {
  bool *keep = KV_TAKE(at->work, bool, lane->n);
  memset(keep, true, (size_t)lane->n);
  keep[entry] = false;
  kv_keep_mask(lane, keep);
}

static void compress_paper(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int past = lane->n - o->proximity;
  if (past <= o->context) return;
  int32_t *place = KV_TAKE(at->work, int32_t, past);
  bool *context = KV_TAKE(at->work, bool, past);
  int residual = split(lane, past, context, place);
  if (past - residual <= o->context) return;
  int victim = kv_argmin(kv_column_float(at, lane, 0), past, context);
  if (o->residual == 0) {
    drop(at, lane, victim);
  } else if (residual < o->residual) {
    kv_retier(lane, 1, &(int32_t){victim}, RESIDUAL);
  } else {
    merge(lane, most_similar(at, lane, victim, residual, place), victim);
  }
}

/* --- compress: code ------------------------------------------------------- */

/* Averages entries 0..past-1 that are not in `stays`, in groups of neighbors;
 * first[g] becomes the entry of group g. */
static void merge_groups(kv_lane *lane, int past, int left, int groups,
                         const bool *stays, int32_t *first) {
  int member = 0, g = 0, size = 0;
  for (int i = 0; i < past; i++) {
    if (stays[i]) continue;
    if (member == 0) {
      size = left / groups + (g < left % groups);
      first[g] = i;
    } else {
      merge(lane, first[g], i);
    }
    if (++member == size) g++, member = 0;
  }
}

static void compress_prompt(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int n = lane->n, past = n - o->proximity, most = o->budget;
  if (n <= most) return;
  bool *stays = KV_TAKE(at->work, bool, past);
  int32_t *order = KV_TAKE(at->work, int32_t, most);
  int32_t *spare = KV_TAKE(at->work, int32_t, most);
  kv_top(kv_column_float(at, lane, 0), past, o->context, stays);
  merge_groups(lane, past, past - o->context, o->residual, stays, order);
  int best = o->residual;
  for (int i = 0; i < n; i++)
    if (i >= past || stays[i]) order[best++] = i;
  kv_order(kv_column_float(at, lane, 0), o->context, order + o->residual,
           spare);
  kv_keep(lane, most, order);
}

static void compress_step(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int others = o->residual + o->context + 1; /* where the ring begins */
  if (lane->n <= o->budget) return;
  int32_t *place = KV_TAKE(at->work, int32_t, o->residual);
  for (int r = 0; r < o->residual; r++) place[r] = r;
  int victim =
      o->residual + kv_argmin(kv_column_float(at, lane, 0) + o->residual,
                              others - o->residual, NULL);
  merge(lane, most_similar(at, lane, victim, o->residual, place), victim);
  kv_sweep(lane);
  kv_move(lane, others - 1, victim);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  if (o->variant == PAPER)
    compress_paper(at, lane);
  else if (at->step <= at->shape->prompt_len)
    compress_prompt(at, lane);
  else
    compress_step(at, lane);
}

const kv_method kv_method_zsmerge = {
    KV_METHOD_OF(table, params, open),
    .revision = 3, /* 1 stored residual entries by id, 4 B for each; now every
                      entry has a class of 1 B. 2 stored merged rows as fp32 */
    .name = "zsmerge",
    .title = "evicted tokens are averaged into residual entries",
    .paper = "Liu et al. 2025, ZSMerge: Zero-Shot KV Cache Compression for "
             "Memory-Efficient Long-Context LLMs, arXiv:2503.10714",
    .observe = observe,
    .compress_lane = compress_lane,
};
