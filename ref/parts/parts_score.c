/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores: fixed-point sums, group rules, pooling, the observation window's
 * sums; and the two ways of keeping that nearly every evicting method shares.
 */
#include "ref/ground/arith.h"
#include "ref/parts/parts.h"
#include <assert.h>
#include <string.h>

void kv_scores(const int64_t *sum, int n, float *out) {
  for (int i = 0; i < n; i++) out[i] = kv_unfix(sum[i]);
}

void kv_scores_seen(int step, const uint32_t *id, int n, float *score) {
  for (int i = 0; i < n; i++)
    score[i] = kv_div(score[i], (float)(step - (int)id[i]));
}

/* --- pooling ------------------------------------------------------------ */

static int low(int i, int half) { return i < half ? 0 : i - half; }
static int high(int i, int half, int n) {
  return i + half < n ? i + half : n - 1;
}

/* Bits of a float as an integer of the same order (arithmetic 2), and back. */
static int32_t signed_key(float x) {
  int32_t u = (int32_t)kv_bits(x);
  return u ^ (u >> 31 & INT32_MAX);
}
static float of_signed_key(int32_t u) {
  return kv_float((uint32_t)(u ^ (u >> 31 & INT32_MAX)));
}

/* x[i] = the largest of x[i .. i + width - 1], for i + width - 1 < n. Runs of a
 * power of two are made of two runs of half as many, the last one overlaps. */
static void run_max(int n, int width, int32_t *x) {
  int have = 1;
  for (int by; have < width; have += by) {
    by = have <= width - have ? have : width - have;
    for (int i = 0; i + have + by <= n; i++)
      x[i] = x[i] > x[i + by] ? x[i] : x[i + by];
  }
}

/* Outputs from `first` on, at most POOLED; what is past an end is no number's
 * key and never the largest. */
enum { POOLED = 1024, WIDEST = 1023 };
static void pool_some(const float *in, int n, int kernel, int first, int count,
                      float *out) {
  int32_t x[POOLED + WIDEST];
  int from = first - kernel / 2;
  for (int i = 0; i < count + kernel - 1; i++) {
    int j = from + i;
    x[i] = j >= 0 && j < n ? signed_key(in[j]) : INT32_MIN;
  }
  run_max(count + kernel - 1, kernel, x);
  for (int i = 0; i < count; i++) out[first + i] = of_signed_key(x[i]);
}

void kv_pool_max(const float *in, int n, int kernel, float *out) {
  assert(kernel <= WIDEST);
  for (int i = 0; i < n; i += POOLED)
    pool_some(in, n, kernel, i, n - i < POOLED ? n - i : POOLED, out);
}

void kv_pool_sum(const int64_t *in, int n, int kernel, int64_t *out) {
  for (int i = 0; i < n; i++) {
    int64_t sum = 0;
    for (int j = low(i, kernel / 2); j <= high(i, kernel / 2, n); j++)
      sum += in[j];
    out[i] = sum;
  }
}

void kv_pool_avg(const float *in, int n, int kernel, float *out) {
  for (int i = 0; i < n; i++) {
    float sum = 0;
    for (int j = low(i, kernel / 2); j <= high(i, kernel / 2, n); j++)
      sum = sum + in[j];
    out[i] = sum / (float)kernel;
  }
}

/* --- the observation window's sums ---------------------------------------- */

size_t kv_window_state(const kv_shape *s, kv_group_rule group) {
  size_t n = (size_t)kv_window_planes(s, group);
  return n * (size_t)s->n_tokens * sizeof(int64_t);
}

void kv_window_add(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                   kv_group_rule group) {
  int64_t *own = kv_own(at, lane);
  for (int h = 0; h < rows->heads; h++) {
    int plane = kv_window_planes(at->shape, group) > 1 ? h : 0;
    int64_t *sum = own + (size_t)plane * (size_t)at->shape->n_tokens;
    const int64_t *add = rows->sum + (size_t)h * rows->stride;
    for (int i = 0; i < rows->entries; i++) sum[i] += add[i];
  }
}

static void max_over(const float *x, int n, float *out) {
  for (int i = 0; i < n; i++)
    if (kv_key(x[i]) > kv_key(out[i])) out[i] = x[i];
}

/* Sums stay sums through an average pooling (arithmetic 4). */
static void score_sums(const kv_at *at, const int64_t *sum, kv_pooling pooling,
                       int kernel, int n, float *out) {
  if (pooling == KV_POOL_AVG) {
    int64_t *pooled = KV_TAKE(at->work, int64_t, n);
    kv_pool_sum(sum, n, kernel, pooled);
    kv_scores(pooled, n, out);
    return;
  }
  if (pooling == KV_POOL_NONE) {
    kv_scores(sum, n, out);
    return;
  }
  float *f = KV_TAKE(at->work, float, n);
  kv_scores(sum, n, f);
  kv_pool_max(f, n, kernel, out);
}

void kv_window_score_from(const kv_at *at, const kv_lane *lane,
                          kv_group_rule group, kv_pooling pooling, int kernel,
                          int first, int n, float *out) {
  const int64_t *own = (const int64_t *)kv_own(at, lane) + first;
  int p = kv_window_planes(at->shape, group);
  if (p == 1) {
    score_sums(at, own, pooling, kernel, n, out);
    return;
  }
  size_t used = at->work->used;
  float *f = KV_TAKE(at->work, float, n), *best = KV_TAKE(at->work, float, n);
  kv_scores(own, n, best);
  for (int h = 1; h < p; h++) {
    kv_scores(own + (size_t)h * (size_t)at->shape->n_tokens, n, f);
    max_over(f, n, best);
  }
  if (pooling == KV_POOL_MAX)
    kv_pool_max(best, n, kernel, out);
  else if (pooling == KV_POOL_AVG)
    kv_pool_avg(best, n, kernel, out);
  else
    memcpy(out, best, (size_t)n * sizeof *out);
  at->work->used = used;
}

void kv_window_score(const kv_at *at, const kv_lane *lane, kv_group_rule group,
                     kv_pooling pooling, int kernel, int n, float *out) {
  kv_window_score_from(at, lane, group, pooling, kernel, 0, n, out);
}

void kv_column_add(const kv_at *at, kv_lane *lane, int c, const kv_rows *rows) {
  int64_t *column = kv_column_int64(at, lane, c);
  for (int h = 0; h < rows->heads; h++) {
    const int64_t *add = rows->sum + (size_t)h * rows->stride;
    for (int i = 0; i < rows->entries; i++) column[i] += add[i];
  }
}

/* --- keeping ------------------------------------------------------------ */

void kv_keep_ends(kv_lane *lane, int sink, int recent) {
  if (lane->n <= sink + recent) return;
  int n = 0;
  for (int i = 0; i < sink; i++) lane->room.list[n++] = i;
  for (int i = lane->n - recent; i < lane->n; i++) lane->room.list[n++] = i;
  kv_keep(lane, n, lane->room.list);
}

void kv_keep_top(const kv_at *at, kv_lane *lane, const float *score, int first,
                 int n, int k) {
  bool *keep = KV_TAKE(at->work, bool, lane->n);
  memset(keep, true, (size_t)lane->n);
  kv_top(score, n, k, keep + first);
  kv_keep_mask(lane, keep);
}

void kv_keep_top_recent(const kv_at *at, kv_lane *lane, const float *score,
                        int heavy, int recent) {
  if (lane->n > heavy + recent)
    kv_keep_top(at, lane, score, 0, lane->n - recent, heavy);
}
