/* SPDX-License-Identifier: Apache-2.0
 *
 * A complete ranking as a list, as in ref/parts/parts.c: kv_gpu_order is
 * a stable radix sort over kv_key, 8 bits a pass, by one block; the others are
 * its steps, called by all threads of the block together unless said otherwise.
 * Each warp has its own run of the list, 32 entries at a time, and knows from
 * the histograms of all warps where its next entry of each digit goes. Cost:
 * four passes over the list.
 */
#ifndef KV_GPU_PARTS_ORDER_CUH
#define KV_GPU_PARTS_ORDER_CUH

#include "gpu/block/array.cuh"
#include "gpu/lane/method.cuh"

/* Of a pass: bits; histogram of a warp; of all warps. */
enum {
  KV_ORDER_DIGIT = 8,
  KV_ORDER_BUCKETS = 1 << KV_ORDER_DIGIT,
  KV_ORDER_COUNTS = (int)KV_WARPS * KV_ORDER_BUCKETS
};

/* The digit from bit `shift` on of a score's inverted key, by which larger
 * scores come first. By any one thread. */
KV_DEVICE uint32_t kv_order_digit(float score, int shift) {
  return ~kv_key(score) >> shift & (KV_ORDER_BUCKETS - 1);
}

/* Turns counts into the places where each begins, by digit, then by warp. Warp
 * w's count of digit b is at w * KV_ORDER_BUCKETS + b. Begins and ends with a
 * barrier. */
KV_DEVICE void kv_order_starts(int *start) {
  enum { EACH = (int)KV_ORDER_BUCKETS / KV_BLOCK };
  int first = kv_thread() * EACH, own = 0, total;
  __syncthreads();
  for (int b = first; b < first + EACH; b++)
    for (int w = 0; w < KV_WARPS; w++) own += start[w * KV_ORDER_BUCKETS + b];
  int before = kv_block_before(own, &total);
  for (int b = first; b < first + EACH; b++)
    for (int w = 0; w < KV_WARPS; w++) {
      int *at = &start[w * KV_ORDER_BUCKETS + b], count = *at;
      *at = before;
      before += count;
    }
  __syncthreads();
}

/* The mask of the warp's threads that have an entry (here) with this thread's
 * digit. By all threads of a warp together. */
KV_DEVICE uint32_t kv_order_peers(uint32_t digit, bool here) {
  uint32_t peers = __ballot_sync(0xffffffffu, here);
  for (int bit = 0; bit < KV_ORDER_DIGIT; bit++) {
    bool set = digit >> bit & 1u;
    uint32_t said = __ballot_sync(0xffffffffu, set);
    peers &= set ? said : ~said;
  }
  return peers;
}

/* One pass: to[0..n) is from[0..n) sorted by one digit, equals in their order.
 */
KV_DEVICE void kv_order_pass(const float *score, int n, int shift,
                             const int32_t *from, int32_t *to) {
  KV_SHARED(int, start, KV_ORDER_COUNTS);
  int lane = kv_thread() % KV_WARP, warp = kv_thread() / KV_WARP;
  int run = (n + KV_BLOCK - 1) / KV_BLOCK * KV_WARP;
  int first = warp * run, end = first + run < n ? first + run : n;
  int *own = start + warp * KV_ORDER_BUCKETS;
  for (int i = kv_thread(); i < KV_ORDER_COUNTS; i += KV_BLOCK) start[i] = 0;
  __syncthreads();
  for (int i = first + lane; i < end; i += KV_WARP)
    atomicAdd(&own[kv_order_digit(score[from[i]], shift)], 1);
  kv_order_starts(start);
  for (int i = first + lane; i - lane < end; i += KV_WARP) {
    bool here = i < end;
    int32_t entry = here ? from[i] : 0;
    uint32_t digit = here ? kv_order_digit(score[entry], shift) : 0;
    uint32_t peers = kv_order_peers(digit, here);
    uint32_t before = peers & ((1u << lane) - 1u);
    int place = here ? own[digit] + __popc(before) : 0;
    __syncwarp();
    if (here) to[place] = entry;
    if (here && before == 0) own[digit] += __popc(peers);
    __syncwarp();
  }
  __syncthreads();
}

/* Sorts the entry indexes list[0..n) by falling score[entry]; equals keep the
 * order that they have in the list. Takes n indexes of the workspace and gives
 * them back. By all threads of the block together; begins and ends with a
 * barrier. */
KV_DEVICE void kv_gpu_order(kv_gpu_at &at, const float *score, int n,
                            int32_t *list) {
  size_t used = at.used;
  int32_t *spare = KV_GPU_TAKE(at, int32_t, n);
  __syncthreads();
  for (int shift = 0; shift < 32; shift += 2 * KV_ORDER_DIGIT) {
    kv_order_pass(score, n, shift, list, spare);
    kv_order_pass(score, n, shift + KV_ORDER_DIGIT, spare, list);
  }
  at.used = used;
}

#endif
