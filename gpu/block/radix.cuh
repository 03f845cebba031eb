/* SPDX-License-Identifier: Apache-2.0
 *
 * The selection behind all rankings: the first entries of a list over several
 * lanes, sorted by larger key, then lower entry, then lower lane. The cut key
 * is found digit by digit from a histogram in shared memory; among entries with
 * that key, the last place included is found from a histogram of places.
 * Integers only, so the order of atomics does not matter. Called by all threads
 * of the block.
 *
 * A Keys says what is ranked:
 *   item, key, sum          types: an element, an unsigned key, a histogram
 *   lanes, n(l), row(l)     how many lanes, how long each, where it stands
 *   of(item), weight(key)   its key; what an entry of that key adds up to
 *
 * Cost: a read of all keys for each 11 bits of a key, one for the equals
 * where some of them stay out, one for the flags.
 */
#ifndef KV_GPU_RADIX_CUH
#define KV_GPU_RADIX_CUH

#include "gpu/block/block.cuh"

enum { KV_DIGIT = 11, KV_BUCKETS = 1 << KV_DIGIT };

/* Scratch in shared memory. */
template <class Sum> struct kv_radix {
  Sum count[KV_BUCKETS];
  uint64_t part[KV_BLOCK];
};

template <class Sum> static __device__ void kv_radix_clear(kv_radix<Sum> *r) {
  __syncthreads();
  for (int b = kv_thread(); b < KV_BUCKETS; b += KV_BLOCK) r->count[b] = 0;
  __syncthreads();
}

/* The bucket in which the sum from the highest down reaches k. k becomes what
 * that bucket must contribute. 1 <= k <= sum of all. */
template <class Sum>
static __device__ int kv_radix_find(kv_radix<Sum> *r, uint64_t *k) {
  enum { EACH = (int)KV_BUCKETS / KV_BLOCK };
  int t = kv_thread(), b = KV_BUCKETS - 1 - t * EACH;
  uint64_t own = 0, before = 0;
  __syncthreads();
  for (int j = 0; j < EACH; j++) own += (uint64_t)r->count[b - j];
  r->part[t] = own;
  __syncthreads();
  for (int i = 0; i < t; i++) before += r->part[i];
  __syncthreads(); /* part holds the answer from here on */
  if (before < *k && *k <= before + own) {
    for (; before + (uint64_t)r->count[b] < *k; b--)
      before += (uint64_t)r->count[b];
    r->part[0] = (uint64_t)b;
    r->part[1] = *k - before;
  }
  __syncthreads();
  b = (int)r->part[0];
  *k = r->part[1];
  __syncthreads();
  return b;
}

/* The key at which the sum of weights, from the largest down, reaches k. k
 * becomes what entries with that key must contribute; *all is what they have.
 */
template <class Keys>
static __device__ typename Keys::key
kv_radix_key(const Keys &x, kv_radix<typename Keys::sum> *r, uint64_t *k,
             uint64_t *all) {
  typedef typename Keys::key key;
  key prefix = 0, mask = 0;
  for (int left = 8 * (int)sizeof(key), shift; left > 0; left = shift) {
    shift = left > KV_DIGIT ? left - KV_DIGIT : 0;
    key digit = (key)(((key)1 << (left - shift)) - 1);
    kv_radix_clear(r);
    for (int l = 0; l < x.lanes; l++) {
      const typename Keys::item *row = x.row(l);
      int n = x.n(l);
      for (int i = kv_thread(); i < n; i += KV_BLOCK) {
        key own = x.of(row[i]);
        if ((own & mask) != prefix) continue;
        atomicAdd(&r->count[own >> shift & digit],
                  (typename Keys::sum)x.weight(own));
      }
    }
    int b = kv_radix_find(r, k);
    *all = (uint64_t)r->count[b];
    prefix |= (key)b << shift;
    mask |= digit << shift;
  }
  return prefix;
}

/* Places number entries of all lanes in the order of equals. */
KV_DEVICE uint32_t kv_radix_place(int i, int lanes, int l) {
  return (uint32_t)i * (uint32_t)lanes + (uint32_t)l;
}

/* Among `span` places from `first` on, the k-th with the cut key. */
template <class Keys>
static __device__ uint32_t kv_radix_kth(const Keys &x, uint64_t *answer,
                                        typename Keys::key cut, uint32_t first,
                                        uint32_t span, int k) {
  uint32_t lanes = (uint32_t)x.lanes;
  int total;
  for (uint32_t from = 0; from < span && k > 0; from += KV_BLOCK) {
    uint32_t off = from + (uint32_t)kv_thread(), place = first + off;
    int i = (int)(place / lanes), l = (int)(place % lanes);
    bool yes = off < span && i < x.n(l) && x.of(x.row(l)[i]) == cut;
    int rank = kv_block_rank(yes, &total);
    if (yes && rank == k - 1) *answer = place;
    k -= total;
  }
  __syncthreads();
  return (uint32_t)*answer;
}

/* The place of the k-th entry with the cut key. */
template <class Keys>
static __device__ uint32_t kv_radix_last(const Keys &x,
                                         kv_radix<typename Keys::sum> *r,
                                         typename Keys::key cut, uint64_t k) {
  int longest = 0;
  for (int l = 0; l < x.lanes; l++)
    longest = x.n(l) > longest ? x.n(l) : longest;
  uint32_t places = kv_radix_place(longest, x.lanes, 0);
  uint32_t span = (places + KV_BUCKETS - 1) / KV_BUCKETS;
  kv_radix_clear(r);
  for (int l = 0; l < x.lanes; l++) {
    const typename Keys::item *row = x.row(l);
    int n = x.n(l);
    for (int i = kv_thread(); i < n; i += KV_BLOCK)
      if (x.of(row[i]) == cut) {
        uint32_t b = kv_radix_place(i, x.lanes, l) / span;
        atomicAdd(&r->count[KV_BUCKETS - 1 - b], (typename Keys::sum)1);
      }
  }
  uint32_t b = KV_BUCKETS - 1 - (uint32_t)kv_radix_find(r, &k);
  return kv_radix_kth(x, r->part, cut, b * span, span, (int)k);
}

/* keep[l][i]: 1 if the entry comes before the sum of weights has reached k. 1
 * <= k <= sum of all. Returns how many. */
template <class Keys>
static __device__ int kv_radix_top(const Keys &x,
                                   kv_radix<typename Keys::sum> *r, uint64_t k,
                                   uint8_t *const *keep) {
  uint64_t all;
  int64_t kept = 0;
  typename Keys::key cut = kv_radix_key(x, r, &k, &all);
  uint64_t weight = (uint64_t)x.weight(cut), in = (k + weight - 1) / weight;
  uint32_t last = ~(uint32_t)0;
  if (in * weight < all) last = kv_radix_last(x, r, cut, in);
  for (int l = 0; l < x.lanes; l++) {
    const typename Keys::item *row = x.row(l);
    int n = x.n(l);
    for (int i = kv_thread(); i < n; i += KV_BLOCK) {
      typename Keys::key own = x.of(row[i]);
      bool yes =
          own > cut || (own == cut && kv_radix_place(i, x.lanes, l) <= last);
      keep[l][i] = yes;
      kept += yes;
    }
  }
  return (int)kv_block_sum(kept);
}

#endif
