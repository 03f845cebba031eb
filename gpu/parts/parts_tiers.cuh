/* SPDX-License-Identifier: Apache-2.0
 *
 * Two tiers of precision on one lane, as in ref/parts/tiers.h: entries in many
 * bits (KV_TIER_HIGH) and in few (KV_TIER_LOW). The first two functions are any
 * thread's; all threads of the block call the others together with the same
 * arguments, as verbs are called. t: of the method's params. one: room for one
 * index in global memory, which all threads see.
 */
#ifndef KV_GPU_PARTS_TIERS_CUH
#define KV_GPU_PARTS_TIERS_CUH

#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts.cuh"

extern "C" {
#include "ref/parts/tiers.h"
}

/* How kv_gpu_recode names the coding of a side (KV_TIER_K, KV_TIER_V) in a
 * tier; KV_SAME: as it came. */
KV_DEVICE int kv_gpu_tier_coding(const kv_gpu_at &at, const kv_tiers *t,
                                 int tier, int side) {
  int i = t->coding[tier][side];
  return i == KV_SAME ? (int)KV_SAME : kv_gpu_coded(at, i);
}

/* True if entry i is in the low tier; false where there is one tier only. */
KV_DEVICE bool kv_gpu_tier_is_low(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                  const kv_tiers *t, int i) {
  if (kv_one_tier(t)) return false;
  const kv_cell_ref *side = t->tell == KV_TIER_K ? lane->k : lane->v;
  return side[i].format == kv_gpu_tier_coding(at, t, KV_TIER_LOW, t->tell);
}

/* The first of the entries that the high tier's coding has yet to code, which
 * are the last ones; lane->n: none. Has barriers. */
KV_DEVICE int kv_gpu_tier_first_new(const kv_gpu_lane *lane,
                                    const kv_tiers *t) {
  if (t->coding[KV_TIER_HIGH][KV_TIER_K] != KV_SAME)
    return kv_gpu_first_full(lane->k, lane->n);
  if (t->coding[KV_TIER_HIGH][KV_TIER_V] != KV_SAME)
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

/* Entry i, which was never coded, goes into a tier. */
KV_DEVICE void kv_gpu_tier_code(kv_gpu_at &at, kv_gpu_lane *lane,
                                const kv_tiers *t, int32_t *one, int i,
                                int tier) {
  int k = kv_gpu_tier_coding(at, t, tier, KV_TIER_K);
  int v = kv_gpu_tier_coding(at, t, tier, KV_TIER_V);
  if (k != KV_SAME || v != KV_SAME) kv_gpu_recode_one(at, lane, one, i, k, v);
}

/* Entry i of the high tier goes into the low one, coded from its codes; a side
 * in which both tiers are alike stays. */
KV_DEVICE void kv_gpu_tier_demote(kv_gpu_at &at, kv_gpu_lane *lane,
                                  const kv_tiers *t, int32_t *one, int i) {
  int to[KV_TIER_SIDES];
  for (int side = 0; side < KV_TIER_SIDES; side++) {
    bool stays = t->coding[KV_TIER_LOW][side] == t->coding[KV_TIER_HIGH][side];
    to[side] =
        stays ? (int)KV_SAME : kv_gpu_tier_coding(at, t, KV_TIER_LOW, side);
  }
  kv_gpu_recode_one(at, lane, one, i, to[KV_TIER_K], to[KV_TIER_V]);
}

#endif
