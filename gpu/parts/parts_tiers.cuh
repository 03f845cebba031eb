/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiers of precision on one lane, as in ref/parts/tiers.h: tier 0 has the most
 * bits. Any thread may call the first three functions; all threads of the block
 * call the others together with the same arguments, like verbs. t: of the
 * method's params. one: one index in global memory, shared by all threads.
 */
#ifndef KV_GPU_PARTS_TIERS_CUH
#define KV_GPU_PARTS_TIERS_CUH

#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts.cuh"

extern "C" {
#include "ref/parts/tiers.h"
}

/* The coding of a side (KV_TIER_K, KV_TIER_V) in a tier, for kv_gpu_recode;
 * KV_SAME: unchanged. */
KV_DEVICE int kv_gpu_tier_coding(const kv_gpu_at &at, const kv_tiers *t,
                                 int tier, int side) {
  int i = t->coding[tier][side];
  return i == KV_SAME ? (int)KV_SAME : kv_gpu_coded(at, i);
}

/* Could a side in this format be of the tier? An unchanged side could be of
 * every tier that leaves it so. */
KV_DEVICE bool kv_gpu_tier_has(const kv_gpu_at &at, const kv_tiers *t, int tier,
                               int side, int format) {
  int coding = kv_gpu_tier_coding(at, t, tier, side);
  return coding == KV_SAME || coding == format;
}

/* The tier of entry i; 0 if it was never coded. */
KV_DEVICE int kv_gpu_tier_of(const kv_gpu_at &at, const kv_gpu_lane *lane,
                             const kv_tiers *t, int i) {
  int tier = t->n - 1;
  while (tier > 0 &&
         !(kv_gpu_tier_has(at, t, tier, KV_TIER_K, lane->k[i].format) &&
           kv_gpu_tier_has(at, t, tier, KV_TIER_V, lane->v[i].format)))
    tier--;
  return tier;
}

/* The first of the entries that tier 0 has not coded yet, which are the lane's
 * last ones; lane->n: none. Has barriers. */
KV_DEVICE int kv_gpu_tier_first_new(const kv_gpu_lane *lane,
                                    const kv_tiers *t) {
  if (t->coding[0][KV_TIER_K] != KV_SAME)
    return kv_gpu_first_full(lane->k, lane->n);
  if (t->coding[0][KV_TIER_V] != KV_SAME)
    return kv_gpu_first_full(lane->v, lane->n);
  return lane->n;
}

/* kv_gpu_recode of entry i alone, into k and v. */
KV_DEVICE void kv_gpu_recode_one(kv_gpu_at &at, kv_gpu_lane *lane, int32_t *one,
                                 int i, int k, int v) {
  if (kv_thread() == 0) one[0] = i;
  __syncthreads();
  kv_gpu_recode(at, lane, 1, one, k, v);
}

/* Codes entry i, which was never coded, for a tier. */
KV_DEVICE void kv_gpu_tier_code(kv_gpu_at &at, kv_gpu_lane *lane,
                                const kv_tiers *t, int32_t *one, int i,
                                int tier) {
  int k = kv_gpu_tier_coding(at, t, tier, KV_TIER_K);
  int v = kv_gpu_tier_coding(at, t, tier, KV_TIER_V);
  if (k != KV_SAME || v != KV_SAME) kv_gpu_recode_one(at, lane, one, i, k, v);
}

/* Moves entry i from a tier to one below it, coded from its codes; a side that
 * both tiers code alike stays. */
KV_DEVICE void kv_gpu_tier_demote(kv_gpu_at &at, kv_gpu_lane *lane,
                                  const kv_tiers *t, int32_t *one, int i,
                                  int from, int to) {
  int as[KV_TIER_SIDES];
  for (int side = 0; side < KV_TIER_SIDES; side++) {
    bool stays = t->coding[to][side] == t->coding[from][side];
    as[side] = stays ? (int)KV_SAME : kv_gpu_tier_coding(at, t, to, side);
  }
  kv_gpu_recode_one(at, lane, one, i, as[KV_TIER_K], as[KV_TIER_V]);
}

#endif
