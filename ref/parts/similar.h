/* SPDX-License-Identifier: Apache-2.0
 *
 * Similarity of the keys of a lane: n^2 cosines, of which only a tile is in
 * memory at a time. To the bit, in binary32 unless stated otherwise:
 *
 *   norm_i = RN(sqrt(dot(k_i, k_i)))            dot: one chain (arithmetic 5)
 *   u_i[x] = RN(k_i[x] / RN(norm_i + 1e-8))     a key of zeros stays zeros
 *   S_ij   = dot(u_i, u_j) = S_ji
 *   sum_i  = sum over j != i of RN(S_ij * 2^24), an integer
 *   last_i = the largest j != i with S_ij > least; -1: there is none
 *
 * An integer sum is the same in any order, so threads, tiles and blocks may
 * split it. j is an entry's index in the lane, not a position. Cost: n^2 d / 2
 * fused multiplications, n d floats of workspace.
 */
#ifndef KV_REF_PARTS_SIMILAR_H
#define KV_REF_PARTS_SIMILAR_H

#include "ref/ground/arith.h"
#include "ref/lane/lane.h"

#define KV_NO_NORM 1e-8f /* added to every norm */

/* RN(s * 2^24), a cosine's term in the sums, and a sum as a number. */
KV_FN int64_t kv_fix_cosine(float s) {
  return (int64_t)kv_rint(kv_mul(s, 0x1p24f));
}
KV_FN float kv_unfix_cosine(int64_t sum) {
  return kv_mul(kv_from_int64(sum), 0x1p-24f);
}

/* Bytes of workspace beyond KV_WORK for keys and cosines of n_tokens entries:
 * for needs.work. */
size_t kv_similar_work(const kv_shape *s);

/* The lane's keys as attention reads them, [n][d], in the hook's workspace. */
float *kv_lane_keys(const kv_at *at, const kv_lane *lane);

/* R-KV's redundancy: how much each key repeats others. For a pair (i, last_i),
 * the cosine is subtracted from the sum of one of the two keys, which is
 * spared: last_i, the later one, or i. */
typedef struct kv_spare {
  float least;     /* >= 0, the cosine above which keys are alike */
  bool earlier;    /* i is spared, else last_i */
  bool none_first; /* a key like no other spares the first key */
} kv_spare;
/* The index of the key that the pair of key i and *j = last_i spares, or -1. *j
 * becomes 0 if the first key replaces a last_i of -1. */
KV_FN int kv_spared(const kv_spare *how, int i, int *j) {
  if (*j < 0 && !how->earlier && how->none_first) *j = 0;
  if (*j < 0 || *j == i) return -1;
  return how->earlier ? i : *j;
}
/* In a compression: [n] redundancies of the keys key[n][d], n >= 1, in the
 * workspace: the softmax over all n of RN(sum_i / n), after sparing. Replaces
 * every key by u_i, its unit vector. Cost: n^2 d / 2. */
float *kv_repeated(const kv_at *at, int n, float *key, const kv_spare *how);

#endif
