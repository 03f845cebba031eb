/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_recode_token of ref/lane/lane.h on a device, of many tokens at once, for
 * formats whose blocks are spread over all lanes of the layer (format delta):
 * kernels write what the blocks hold into the slabs first, and then
 * kv_gpu_recode_tokens makes them the lane's.
 */
#ifndef KV_GPU_VERBS_TOKEN_CUH
#define KV_GPU_VERBS_TOKEN_CUH

#include "gpu/lane/verbs.cuh"

/* A block of such a slab, by any thread: first the fp32 row [width] that the
 * token stands for in this lane; then, of K, the ids of the tokens that it
 * names; then this slab's part of the stored bytes (kv_gpu_token_part, by how
 * many ids a block has). */
KV_DEVICE char *kv_gpu_token_block(const kv_gpu_slab &s, int32_t block) {
  return s.data + (size_t)block * s.size;
}
KV_DEVICE int32_t *kv_gpu_token_named(const kv_gpu_slab &s, int32_t block) {
  return (int32_t *)(kv_gpu_token_block(s, block) + (size_t)s.width * 4);
}
KV_DEVICE char *kv_gpu_token_part(const kv_gpu_slab &s, int32_t block,
                                  int named) {
  return (char *)(kv_gpu_token_named(s, block) + (s.part % 2 ? 0 : named));
}

/* Entries entry[0..n) become coded, one record each in this order: entry j,
 * both sides, in format[j] (as kv_gpu_coded names it) and block[j], which must
 * be the next that its slabs take. All threads of the lane's block, like a
 * verb; where the journal has no room for the records, the lane fails
 * (KV_GPU_JOURNAL) and nothing is done. */
KV_DEVICE void kv_gpu_recode_tokens(kv_gpu_at &at, kv_gpu_lane *lane, int n,
                                    const int32_t *entry, const int32_t *format,
                                    const int32_t *block) {
  enum { WORDS = 8 }; /* of a record: five, both formats and an id */
  const kv_gpu_layer &l = *at.layer;
  int from = lane->n_verbs;
  bool fits = WORDS * n <= lane->cap_verbs - from;
  __syncthreads();
  if (!fits) {
    if (kv_thread() == 0) kv_gpu_fail(lane, KV_GPU_JOURNAL, 0);
    __syncthreads();
    return;
  }
  for (int j = kv_thread(); j < n; j += KV_BLOCK) {
    uint32_t f = (uint32_t)format[j];
    const uint32_t word[WORDS] = {(uint32_t)KV_RECODE,
                                  (uint32_t)l.layer,
                                  (uint32_t)lane->step,
                                  (uint32_t)lane->lane,
                                  WORDS - 5,
                                  f,
                                  f,
                                  lane->id[entry[j]]};
    for (int w = 0; w < WORDS; w++) lane->verbs[from + WORDS * j + w] = word[w];
  }
  if (kv_thread() == 0) {
    lane->n_verbs = from + WORDS * n;
    for (int j = 0; j < n; j++) {
      int i = entry[j], f = format[j];
      lane->rewritten += !kv_gpu_is_rewritten(lane, i);
      int32_t k = kv_gpu_take_block(&lane->k_slab[f], 1);
      int32_t v = kv_gpu_take_block(&lane->v_slab[f], 1);
      assert(k == block[j] && v == k && "blocks as they were numbered");
      kv_gpu_leave(&lane->k_raw, lane->k_slab, &lane->k[i]);
      kv_gpu_leave(&lane->v_raw, lane->v_slab, &lane->v[i]);
      lane->k[i] = kv_cell_ref{k, 0, (uint16_t)f};
      lane->v[i] = kv_cell_ref{v, 0, (uint16_t)f};
    }
  }
  __syncthreads();
  kv_gpu_note(l, lane, n, entry);
}

#endif
