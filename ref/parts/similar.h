/* SPDX-License-Identifier: Apache-2.0
 *
 * How alike the keys of a lane are: n^2 cosines, of which no more than a tile
 * is in memory. To the bit, all in binary32 unless it says otherwise:
 *
 *   norm_i = RN(sqrt(dot(k_i, k_i)))            dot: one chain (arithmetic 5)
 *   u_i[x] = RN(k_i[x] / RN(norm_i + 1e-8))     a key of zeros stays zeros
 *   S_ij   = dot(u_i, u_j) = S_ji
 *   sum_i  = sum over j != i of RN(S_ij * 2^24), an integer
 *   last_i = the largest j != i with S_ij > least; -1: there is none
 *
 * An integer sum is the same in any order, so threads, tiles and blocks may
 * split it. Places are those of the lane: j is an entry, not a position.
 * Cost: n^2 d / 2 fused multiplications, n d floats of workspace.
 */
#ifndef KV_REF_PARTS_SIMILAR_H
#define KV_REF_PARTS_SIMILAR_H

#include "ref/ground/arith.h"
#include "ref/lane/lane.h"

#define KV_NO_NORM 1e-8f /* added to every norm */

/* A cosine in a sum of them, and such a sum as a number. */
KV_FN int64_t kv_fix_cosine(float s) {
  return (int64_t)kv_rint(kv_mul(s, 0x1p24f));
}
KV_FN float kv_unfix_cosine(int64_t sum) {
  return kv_mul(kv_from_int64(sum), 0x1p-24f);
}

/* Workspace beyond KV_WORK that keys and cosines of n_tokens entries take. */
size_t kv_similar_work(const kv_shape *s);

/* The lane's keys, [n][d], in the hook's workspace. */
float *kv_lane_keys(const kv_at *at, const kv_lane *lane);
/* Makes every one of n keys as long as 1. */
void kv_unit_keys(int n, int d, float *key);
/* Sums and last ones of n keys of length 1; least >= 0. */
void kv_similar(const kv_at *at, int n, const float *unit, float least,
                int64_t *sum, int32_t *last);

#endif
