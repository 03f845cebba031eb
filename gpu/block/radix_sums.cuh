/* SPDX-License-Identifier: Apache-2.0
 *
 * The histogram of a digit for gpu/block/radix.cuh, and the bucket at which its
 * sum from the highest bucket down reaches a number. Order: kv_radix_clear
 * once, then for each digit kv_radix_add by any threads and kv_radix_find.
 * Called by all threads of the block together, but kv_radix_add.
 */
#ifndef KV_GPU_RADIX_SUMS_CUH
#define KV_GPU_RADIX_SUMS_CUH

#include "gpu/block/async.h"
#include "gpu/block/block.cuh"

/* Bits of a digit; buckets of the histogram; entries that the list has room
 * for. Threads are summed in groups of KV_RADIX_GROUP. */
enum { KV_DIGIT = 11, KV_BUCKETS = 1 << KV_DIGIT, KV_LISTED = 4096 };
enum { KV_RADIX_GROUP = 8, KV_RADIX_GROUPS = (int)KV_BLOCK / KV_RADIX_GROUP };

/* Scratch of a selection, in shared memory. A bucket's sum has 32 bits; with
 * WIDE 64, the upper 32 in words of their own, as shared memory adds 32 bits
 * natively and 64 only by trying again. */
template <bool WIDE> struct alignas(16) kv_radix {
  uint32_t low[KV_BUCKETS], high[WIDE ? (int)KV_BUCKETS : 4];
  uint32_t list[KV_LISTED]; /* places of open entries */
  int listed;               /* how many there are; may be more than fit */
  uint64_t part[KV_BLOCK], group[KV_RADIX_GROUPS]; /* sums of threads' buckets,
                                                      of groups of threads */
  uint64_t found[3]; /* bucket, its contribution, its sum: kv_radix_find */
};

/* Empties the histogram; ends with a barrier. */
template <bool WIDE> static __device__ void kv_radix_clear(kv_radix<WIDE> *r) {
  for (int b = kv_thread(); b < KV_BUCKETS; b += KV_BLOCK) {
    r->low[b] = 0;
    if (WIDE) r->high[b] = 0;
  }
  __syncthreads();
}

/* Adds w to bucket b, without WIDE 1 whatever w is. By any thread. */
template <bool WIDE>
static __device__ void kv_radix_add(kv_radix<WIDE> *r, int b, uint64_t w) {
  if (!WIDE) {
    atomicAdd(&r->low[b], 1u);
    return;
  }
  uint32_t low = (uint32_t)w, high = (uint32_t)(w >> 32);
  if (low) high += atomicAdd(&r->low[b], low) + low < low;
  if (high) atomicAdd(&r->high[b], high);
}

/* Buckets of a thread; kv_radix_take reads their sums into own, the highest
 * bucket first, and empties them. */
enum { KV_RADIX_EACH = (int)KV_BUCKETS / KV_BLOCK };
template <bool WIDE>
static __device__ void kv_radix_take(kv_radix<WIDE> *r, uint64_t *own) {
  enum { QUADS = (int)KV_RADIX_EACH / 4 };
  int first = KV_BUCKETS - (kv_thread() + 1) * KV_RADIX_EACH;
  kv_piece *low = (kv_piece *)(r->low + first);
  kv_piece *high = (kv_piece *)(r->high + (WIDE ? first : 0));
  kv_piece none = {{0, 0, 0, 0}};
  KV_UNROLL
  for (int q = 0; q < QUADS; q++) {
    kv_piece a = low[q], b = WIDE ? high[q] : none;
    low[q] = none;
    if (WIDE) high[q] = none;
    KV_UNROLL
    for (int j = 0; j < 4; j++)
      own[KV_RADIX_EACH - 1 - 4 * q - j] =
          (uint64_t)b.word[j] << 32 | a.word[j];
  }
}

/* Returns to each thread the sum of r->part of the threads before it, by their
 * groups and then within its own group. Has a barrier. */
template <bool WIDE>
static __device__ uint64_t kv_radix_before(kv_radix<WIDE> *r) {
  int t = kv_thread(), mine = t / KV_RADIX_GROUP;
  uint64_t before = 0;
  if (t < KV_RADIX_GROUPS) {
    uint64_t sum = 0;
    KV_UNROLL
    for (int i = 0; i < KV_RADIX_GROUP; i++)
      sum += r->part[t * KV_RADIX_GROUP + i];
    r->group[t] = sum;
  }
  __syncthreads();
  KV_UNROLL
  for (int g = 0; g < KV_RADIX_GROUPS; g++)
    before += g < mine ? r->group[g] : 0;
  KV_UNROLL
  for (int i = 0; i < KV_RADIX_GROUP; i++)
    before += i < t % KV_RADIX_GROUP ? r->part[mine * KV_RADIX_GROUP + i] : 0;
  return before;
}

/* Returns the bucket in which the sum from the highest one down reaches *k,
 * 1 <= *k <= sum of all. *k becomes what that bucket must contribute, *all the
 * bucket's sum. Begins with a barrier; the histogram is empty again. */
template <bool WIDE>
static __device__ int kv_radix_find(kv_radix<WIDE> *r, uint64_t *k,
                                    uint64_t *all) {
  uint64_t own[KV_RADIX_EACH], sum = 0;
  int t = kv_thread();
  __syncthreads();
  kv_radix_take(r, own);
  KV_UNROLL
  for (int j = 0; j < KV_RADIX_EACH; j++) sum += own[j];
  r->part[t] = sum;
  __syncthreads();
  uint64_t before = kv_radix_before(r);
  if (before < *k && *k <= before + sum) {
    KV_UNROLL
    for (int j = 0; j < KV_RADIX_EACH; j++) {
      if (before < *k && *k <= before + own[j]) {
        r->found[0] = (uint64_t)(KV_BUCKETS - 1 - t * KV_RADIX_EACH - j);
        r->found[1] = *k - before;
        r->found[2] = own[j];
      }
      before += own[j];
    }
  }
  __syncthreads();
  *k = r->found[1];
  *all = r->found[2];
  return (int)r->found[0];
}

#endif
