/* SPDX-License-Identifier: Apache-2.0
 *
 * Scorers by keys alone, as they are stored: short ones (KNorm), and those
 * unlike the lane's average key (KeyDiff). Cost: O(n d) a lane.
 *
 * keydiff, to the bit, over all n entries of the lane, candidates or not:
 *   norm[i]   = sqrt(dot(k_i, k_i)), the chain of arithmetic 5
 *   anchor[x] = RN32(sum over i of RN(k_i[x] / max(norm[i], 1e-12) * 2^40))
 *               * 2^-40 / n: one int64 sum, one rounding, one division
 *   score[i]  = 0 - dot(k_i, anchor) / max(norm[i] * |anchor|, 1e-8)
 * with |anchor| as norm. The constants are those of the libraries behind
 * kvpress; they matter for keys of length 0 alone.
 */
#include "ref/ground/arith.h"
#include "ref/parts/scorers.h"

static kv_rc open(const kv_shape *shape, const char *method, int budget,
                  kv_score_options *o, kv_needs *needs, kv_err *e) {
  (void)method, (void)budget, (void)e;
  if (o->w.window == KV_UNSET) o->w.window = 0;
  needs->work += 32 * (size_t)shape->d;
  return KV_OK;
}

/* --- knorm ---------------------------------------------------------------- */

static void score_short(const kv_at *at, const kv_lane *lane,
                        const kv_score_options *o, int first, int n,
                        float *out) {
  int d = at->shape->d;
  float *key = KV_TAKE(at->work, float, d);
  (void)o;
  for (int i = 0; i < n; i++) {
    kv_lane_key(lane, first + i, key);
    out[i] = -kv_dot(key, key, d);
  }
}

const kv_scorer kv_scorer_knorm = {
    .name = "knorm", .open = open, .score = score_short};

/* --- keydiff -------------------------------------------------------------- */

static float norm_of(const float *x, int d) { return kv_sqrt(kv_dot(x, x, d)); }

/* Norms of all keys; the average of their directions into anchor. */
static void average(const kv_lane *lane, int d, float *key, int64_t *sum,
                    float *norm, float *anchor) {
  for (int x = 0; x < d; x++) sum[x] = 0;
  for (int i = 0; i < lane->n; i++) {
    kv_lane_key(lane, i, key);
    norm[i] = norm_of(key, d);
    float by = kv_max(norm[i], 1e-12f);
    for (int x = 0; x < d; x++) sum[x] += kv_fix(kv_div(key[x], by));
  }
  for (int x = 0; x < d; x++)
    anchor[x] = kv_div(kv_unfix(sum[x]), (float)lane->n);
}

static void score_unlike(const kv_at *at, const kv_lane *lane,
                         const kv_score_options *o, int first, int n,
                         float *out) {
  int d = at->shape->d;
  float *key = KV_TAKE(at->work, float, d);
  float *anchor = KV_TAKE(at->work, float, d);
  float *norm = KV_TAKE(at->work, float, lane->n);
  int64_t *sum = KV_TAKE(at->work, int64_t, d);
  (void)o;
  average(lane, d, key, sum, norm, anchor);
  float length = norm_of(anchor, d);
  for (int i = 0; i < n; i++) {
    float both = kv_max(kv_mul(norm[first + i], length), 1e-8f);
    kv_lane_key(lane, first + i, key);
    out[i] = kv_sub(0.0f, kv_div(kv_dot(key, anchor, d), both));
  }
}

const kv_scorer kv_scorer_keydiff = {
    .name = "keydiff", .open = open, .score = score_unlike};
