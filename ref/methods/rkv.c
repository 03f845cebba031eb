/* SPDX-License-Identifier: Apache-2.0
 *
 * R-KV: keeps tokens that the last queries attend and that are not redundant:
 * no other stored key resembles theirs.
 *
 *   a ring holds the queries of the last w = window rows, prompt and decoding
 *   after the prompt, and then every `every` steps, n > budget, m = n - w;
 *   i and j are indexes of entries in the lane:
 *     L[t][j] = arithmetic 1, row t of the ring, j < m; not finite: 0
 *     group=max_logit: the largest over the group's heads, one row for each t
 *     group=mean_prob: a row for each t and head
 *     I[j]    = max over neighbours within kernel div 2, below m, of
 *               RN(f / rows), f the sum of the rows' P over [0, m), as in
 *               arithmetic 4
 *     u_i[x]  = RN(k_i[x] / RN(RN(sqrt(dot(k_i, k_i))) + 1e-8))
 *     C_ij    = dot(u_i, u_j), one chain (arithmetic 5)
 *     c_ij    = RN(C_ij * 2^24), an integer: sums are exact in any order
 *     last(i) = the largest j != i, j < n, with C_ij > threshold, or none
 *     redundancy=code:  c_{i,last(i)} is taken as 0; if none: c_i0 is, or with
 *                       fallback=none nothing is
 *     redundancy=paper: c_{last(i),i} is taken as 0; if none: nothing is
 *     r[j]    = RN(RN32(sum over i != j of c_ij) * 2^-24 / n)
 *     R       = P of r over [0, n) (arithmetic 4)
 *     Z[j]    = fma(-(1 - lambda), R[j], lambda * I[j]), each product and
 *               difference rounded except in the fma
 *     keep the best budget - w of [0, m) by Z, and after them the last w;
 *     slots=score stores the best first, slots=position in their old order
 *
 * Cai et al. 2025, R-KV: Redundancy-aware KV Cache Compression for Reasoning
 * Models. The default follows the authors' code, except for lambda.
 * Differences:
 * - Of the pair (i, last(i)) the code zeroes row i, which lowers the redundancy
 *   of the later key. Paper and code both say they want that. The paper's
 *   formula, read to the letter, spares the earlier key (redundancy=paper).
 * - If no key resembles key i, the code's index makes last(i) = 0 and lowers
 *   the redundancy of the first entry. fallback=none leaves that out. The paper
 *   and redundancy=paper have no such rule.
 * - lambda is 0.1 in the paper, the default, and 0.07 in the code's class.
 *   Sparse-vLLM uses 0.1 and a threshold of 0.8, LMCache's example 0.25 and a
 *   window of 16.
 * - "Last" means last in the cache. The code stores kept entries by score, so
 *   from the second compression on "last" and the neighbours of the pooling
 *   follow rank (slots=score). slots=position is the order in time, which the
 *   paper describes.
 * - The heads of a group are joined by the largest logit before the softmax,
 *   which users of the code have questioned. group=mean_prob averages
 *   probabilities. Unlike SnapKV's, the softmax leaves out the window's
 *   columns.
 * - The code's counter runs over prompt and answer: it compresses when 128 m +
 *   1 tokens were seen. It compresses after the prompt only for a process's
 *   first request. trigger=prompt compresses when every * m tokens were
 *   decoded, trigger=global when every * m + 1 were seen. Both always compress
 *   a prompt.
 * - At n = budget the code sorts what it has; here nothing happens.
 * - Not offered: the code's retain_ratio, which decides nothing at its default,
 *   and its retain_direction=first, which is the fallback for every key.
 *
 * Family: drop. Acts: every 128 steps. Needs: the last 8 queries; all keys
 * against all. Bound: B after a compression, less than B + every between two.
 * Bytes: (B + 128) R + 8 G d e. Gather: keys alike, cosine above `threshold`.
 * Reduce: lambda times probability, minus (1 - lambda) times redundancy.
 * Sample: top-k. Cost: n^2 d / 2 fused multiplications a lane and compression
 * (ref/parts/similar.h), O(w n d) logits.
 */
#include "ref/methods/rkv.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"
#include "ref/parts/ring.h"
#include "ref/parts/similar.h"
#include <string.h>

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc resolve(const kv_shape *shape, params *o, kv_err *e) {
  kv_rc rc = kv_open_budget("rkv", o->budget, e);
  if (rc) return rc;
  if (o->window == KV_UNSET) {
    o->window = kv_fallback_window(o->budget);
    if (o->window > 8) o->window = 8;
  }
  rc = kv_open_part("rkv", "window", o->window, o->budget, e);
  if (rc) return rc;
  rc = kv_open_kernel("rkv", o->kernel, e);
  return rc ? rc : kv_open_sums("rkv", o->window, kv_group(shape), 1, e);
}

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  kv_rc rc = resolve(shape, o, e);
  if (rc) return rc;
  size_t n = (size_t)shape->n_tokens;
  int rows = o->window < shape->prompt_len ? o->window : shape->prompt_len;
  needs->prompt_rows = rows;
  needs->decode_rows = true;
  needs->want = KV_Q;
  needs->every = o->every;
  if (o->trigger == GLOBAL)
    needs->phase = (o->every + 1 - shape->prompt_len % o->every) % o->every;
  needs->lengths = needs->slides = true;
  needs->lane_state = kv_ring_floats(shape, o->window) * sizeof(float);
  needs->work = kv_similar_work(shape) +
                (size_t)(kv_group(shape) + 8) * n * sizeof(float);
  needs->metas = 1;
  needs->meta[0] = kv_ring_meta(shape, o->window);
  return KV_OK;
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_ring_add(at, lane, rows, o->window, kv_own(at, lane));
}

/* Adds the importance by one row of the ring; s: [heads][n] its logits. */
static void add_queries(const kv_at *at, int n, int heads, float *s,
                        int64_t *acc) {
  const params *o = at->params;
  size_t width = (size_t)n;
  kv_logits_finite(at, heads * n, s);
  for (int h = 1; h < heads && o->group == MAX_LOGIT; h++)
    for (int j = 0; j < n; j++)
      s[j] = kv_max(s[j], s[(size_t)h * width + (size_t)j]);
  if (o->group == MAX_LOGIT) heads = 1;
  for (int h = 0; h < heads; h++, s += width) {
    kv_probabilities(at, n, s);
    at->kernels->fix_add(s, n, acc);
  }
}

/* The importance of the entries before the window. */
static float *importance(const kv_at *at, const kv_lane *lane,
                         const float *key) {
  const params *o = at->params;
  int n = lane->n - o->window, d = at->shape->d, heads = lane->queries;
  const float *q = kv_own(at, lane);
  float *out = KV_TAKE(at->work, float, n);
  size_t used = at->work->used, row = (size_t)heads * (size_t)d;
  float *mean = KV_TAKE(at->work, float, n);
  int64_t *acc = KV_TAKE(at->work, int64_t, n);
  const void **rows = KV_TAKE(at->work, const void *, n);
  float *s = KV_TAKE(at->work, float, (size_t)heads *(size_t)n);
  float *pack = KV_TAKE(at->work, float, (size_t)KV_PACK *(size_t)d);
  memset(acc, 0, (size_t)n * sizeof *acc);
  for (int j = 0; j < n; j++) rows[j] = key + (size_t)j * (size_t)d;
  for (int t = 0; t < o->window; t++, q += row) {
    at->kernels->logits(heads, n, d, q, (size_t)d, rows, KV_F32,
                        at->shape->scale, s, (size_t)n, pack);
    at->kernels->softcap(at->shape->softcap, heads, n, s, (size_t)n);
    add_queries(at, n, heads, s, acc);
  }
  int votes = o->window * (o->group == MAX_LOGIT ? 1 : heads);
  for (int j = 0; j < n; j++) mean[j] = kv_div(kv_unfix(acc[j]), (float)votes);
  kv_pool_max(mean, n, o->kernel, out);
  at->work->used = used;
  return out;
}

/* Keeps the flagged entries before the window, best first, then the window. */
static void keep_by_score(const kv_at *at, kv_lane *lane, const float *score,
                          const bool *keep) {
  const params *o = at->params;
  int32_t *list = KV_TAKE(at->work, int32_t, lane->n);
  int32_t *room = KV_TAKE(at->work, int32_t, lane->n);
  int m = 0;
  for (int i = 0; i < lane->n - o->window; i++)
    if (keep[i]) list[m++] = i;
  kv_order(score, m, list, room);
  for (int i = lane->n - o->window; i < lane->n; i++) list[m++] = i;
  kv_keep(lane, m, list);
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  int n = lane->n, past = n - o->window;
  if (n <= o->budget) return;
  float *key = kv_lane_keys(at, lane);
  float *score = importance(at, lane, key);
  kv_spare how = {o->threshold, o->redundancy == PAPER, o->fallback == INDEX0};
  const float *r = kv_repeated(at, n, key, &how);
  bool *keep = KV_TAKE(at->work, bool, n);
  float rest = kv_sub(1.0f, o->lambda);
  for (int j = 0; j < past; j++)
    score[j] = kv_fma(-rest, r[j], kv_mul(o->lambda, score[j]));
  kv_top(score, past, o->budget - o->window, keep);
  memset(keep + past, true, (size_t)o->window);
  if (o->slots == BY_SCORE)
    keep_by_score(at, lane, score, keep);
  else
    kv_keep_mask(lane, keep);
}

const kv_method kv_method_rkv = {
    KV_METHOD_OF(table, params, open),
    .revision = 1,
    .name = "rkv",
    .title = "what the last queries attend, without redundant tokens",
    .paper = "Cai et al. 2025, R-KV: Redundancy-aware KV Cache Compression for "
             "Reasoning Models, arXiv:2505.24133",
    .observe = observe,
    .compress_lane = compress_lane,
};
