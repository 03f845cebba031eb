/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiers of precision on one lane, as in ref/parts/tiers.h: tier 0 has the most
 * bits. Any thread may call the first three functions; all threads of the block
 * call the others together with the same arguments, like verbs. t: of the
 * method's params.
 */
#ifndef KV_GPU_PARTS_TIERS_CUH
#define KV_GPU_PARTS_TIERS_CUH

#include "gpu/lane/recode.cuh"
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

/* Codes the entries, which were never coded and ascend, for their tiers: entry
 * i's is tier[i]. A tier that codes neither side leaves them. */
KV_DEVICE void kv_gpu_tier_code(kv_gpu_at &at, kv_gpu_lane *lane,
                                const kv_tiers *t, int first,
                                const uint8_t *tier) {
  const kv_gpu_layer &l = *at.layer;
  int n = lane->n, wrong = INT32_MAX;
  int32_t *all = KV_GPU_TAKE(at, int32_t, n),
          *some = KV_GPU_TAKE(at, int32_t, n);
  uint8_t *in = KV_GPU_TAKE(at, uint8_t, n);
  auto coding = [&](int of, int side) {
    return kv_gpu_tier_coding(at, t, of, side);
  };
  for (int i = first + kv_thread(); i < n; i += KV_BLOCK)
    in[i] = coding(tier[i], KV_TIER_K) != KV_SAME ||
            coding(tier[i], KV_TIER_V) != KV_SAME;
  __syncthreads();
  kv_gpu_entries e = {kv_gpu_indexes(first, n, in, true, all), 0, all};
  uint32_t *w = kv_gpu_recode_records(l, lane, e, 1);
  if (!w) return;
  for (int j = kv_thread(); j < e.n; j += KV_BLOCK)
    for (int side = 0; side < KV_TIER_SIDES; side++)
      w[j * (KV_GPU_HEAD + 3) + side] = (uint32_t)coding(tier[all[j]], side);
  for (int of = 0; of < t->n; of++) {
    for (int i = first + kv_thread(); i < n; i += KV_BLOCK)
      in[i] = tier[i] == of;
    __syncthreads();
    kv_gpu_entries own = {kv_gpu_indexes(first, n, in, true, some), 0, some};
    for (int side = 0; side < KV_TIER_SIDES; side++) {
      int entry = kv_gpu_recode_side(l, lane, own, 1, coding(of, side),
                                     side == KV_TIER_K);
      if (entry < wrong) wrong = entry;
    }
  }
  kv_gpu_recoded(l, lane, e, wrong);
}

/* Moves entry i from a tier to one below it, coded from its codes; a side that
 * both tiers code alike stays. */
KV_DEVICE void kv_gpu_tier_demote(kv_gpu_at &at, kv_gpu_lane *lane,
                                  const kv_tiers *t, int i, int from, int to) {
  int as[KV_TIER_SIDES];
  for (int side = 0; side < KV_TIER_SIDES; side++) {
    bool stays = t->coding[to][side] == t->coding[from][side];
    as[side] = stays ? (int)KV_SAME : kv_gpu_tier_coding(at, t, to, side);
  }
  kv_gpu_recode(at, lane, kv_gpu_entries{1, i, nullptr}, 1, as[KV_TIER_K],
                as[KV_TIER_V]);
}

#endif
