/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranking, as in ref/parts/parts.h: top, top over lanes, top-p, argmin, hashes.
 * All threads of the block call every function together with the same
 * arguments, which may be in each thread's own memory, and get the same answer;
 * unless said otherwise each begins and ends with a barrier, so scores may be
 * written just before and results read at once. Scores are of entries, flags a
 * byte an entry, both in global memory. Where ref shows scores to `kvreplay
 * check`, so do these (gpu/parts/parts_show.cuh). Nothing can fail. Cost:
 * gpu/block/radix.cuh.
 */
#ifndef KV_GPU_PARTS_CUH
#define KV_GPU_PARTS_CUH

#include "gpu/block/radix.cuh"
#include "gpu/lane/method.cuh"
#include "gpu/parts/parts_order.cuh"
#include "gpu/parts/parts_show.cuh"
#include "ref/ground/formula.h"

/* What gpu/block/radix.cuh ranks (its Keys). Scores of several lanes, score[l]
 * [count[l]]; every entry counts one. */
struct kv_by_scores {
  typedef float item;
  typedef uint32_t key;
  static constexpr bool WIDE = false;
  const float *const *score;
  const int *count;
  int lanes;
  uint8_t *const *keep; /* [lanes][count[l]] the flags */
  __device__ int n(int l) const { return count[l]; }
  __device__ const float *row(int l) const { return kv_global(score[l]); }
  __device__ uint8_t *flags(int l) const { return kv_global(keep[l]); }
  __device__ uint32_t of(float s) const { return kv_key(s); }
  __device__ int weight(uint32_t) const { return 1; }
};

/* `count` items of one lane and their flags, all by value: what a selection is
 * called with stays in registers. */
template <class Item> struct kv_by_one {
  typedef Item item;
  static constexpr int lanes = 1;
  const Item *own;
  int count;
  uint8_t *keep; /* [count] */
  __device__ int n(int) const { return count; }
  __device__ const Item *row(int) const { return kv_global(own); }
  __device__ uint8_t *flags(int) const { return kv_global(keep); }
};

/* Scores of one lane; every entry counts one. */
struct kv_by_score : kv_by_one<float> {
  typedef uint32_t key;
  static constexpr bool WIDE = false;
  __device__ uint32_t of(float s) const { return kv_key(s); }
  __device__ int weight(uint32_t) const { return 1; }
};

/* Logits of one lane; an entry counts as its mass, e^(s - top) in fixed point,
 * top being the largest. */
struct kv_by_mass : kv_by_one<float> {
  typedef uint32_t key;
  static constexpr bool WIDE = true;
  float top;
  __device__ uint32_t of(float s) const { return kv_key(s); }
  __device__ int64_t weight(uint32_t k) const {
    return kv_fix(kv_expm(kv_sub(kv_of_key(k), top)));
  }
};

/* Hashes of one lane; every entry counts one. */
struct kv_by_hash : kv_by_one<uint64_t> {
  typedef uint64_t key;
  static constexpr bool WIDE = false;
  __device__ uint64_t of(uint64_t h) const { return h; }
  __device__ int weight(uint64_t) const { return 1; }
};

/* keep[i] = flag, i < n. No barrier: the caller has one before it reads them.
 */
KV_DEVICE void kv_gpu_flag_all(uint8_t *keep, int n, bool flag) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK) keep[i] = flag;
}

/* keep[l][i] = 1 if score[l][i], i < n[l], is among the k largest of all lanes
 * together, else 0. k <= 0: none; k >= all: all. Equal scores rank by the lower
 * entry, then the lower lane. */
KV_DEVICE void kv_gpu_top_shared(kv_gpu_at &at, const float *const *score,
                                 const int *n, int lanes, int k,
                                 uint8_t *const *keep) {
  int total = 0;
  __syncthreads();
  for (int l = 0; l < lanes; l++) total += n[l];
  kv_gpu_show(at, KV_CHOSE_K, score, n, lanes);
  if (k > 0 && k < total) {
    kv_radix_top(kv_by_scores{score, n, lanes, keep}, (uint64_t)k);
    return;
  }
  for (int l = 0; l < lanes; l++) kv_gpu_flag_all(keep[l], n[l], k > 0);
  __syncthreads();
}

/* kv_gpu_top and kv_gpu_top_hash: Keys is kv_by_score or kv_by_hash. */
template <class Keys>
static __device__ void kv_gpu_top_one(const typename Keys::item *own, int n,
                                      int k, uint8_t *keep) {
  __syncthreads();
  if (k > 0 && k < n) {
    kv_radix_top(Keys{{own, n, keep}}, (uint64_t)k);
    return;
  }
  kv_gpu_flag_all(keep, n, k > 0);
  __syncthreads();
}

/* The same of one lane. */
KV_DEVICE void kv_gpu_top(kv_gpu_at &at, const float *score, int n, int k,
                          uint8_t *keep) {
  kv_gpu_show(at, KV_CHOSE_K, &score, &n, 1);
  kv_gpu_top_one<kv_by_score>(score, n, k, keep);
}

/* The same of hashes. */
KV_DEVICE void kv_gpu_top_hash(kv_gpu_at &, const uint64_t *hash, int n, int k,
                               uint8_t *keep) {
  kv_gpu_top_one<kv_by_hash>(hash, n, k, keep);
}

/* The largest of s[0..n), n >= 1, by kv_key. Begins without a barrier of its
 * own before it reads: thread t reads s[t], s[t + KV_BLOCK], .. alone. */
KV_DEVICE float kv_gpu_largest(const float *s, int n) {
  uint32_t best = 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    uint32_t key = kv_key(s[i]);
    best = key > best ? key : best;
  }
  return kv_of_key(kv_block_max(best));
}

/* keep[i] = 1 for the fewest entries, at least one, whose probabilities (of the
 * n >= 1 logits s) reach the share p20 * 2^-20, else 0; for all if a logit is
 * not finite and the mass 0. Returns how many. Begins as kv_gpu_largest. */
KV_DEVICE int kv_gpu_top_p(kv_gpu_at &at, const float *s, int n, int32_t p20,
                           uint8_t *keep) {
  kv_gpu_show(at, KV_CHOSE_MASS, &s, &n, 1);
  kv_by_mass x = {{s, n, keep}, kv_gpu_largest(s, n)};
  int64_t mass = 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    mass += x.weight(kv_key(s[i]));
  mass = kv_block_sum(mass);
  if (mass == 0) { /* a logit is not finite: the cell fails at it */
    kv_gpu_flag_all(keep, n, true);
    __syncthreads();
    return n;
  }
  int64_t target = kv_share_of(mass, p20); /* 0 selects as 1 does */
  return kv_radix_top(x, (uint64_t)(target > 0 ? target : 1));
}

/* Index of the smallest score, of equals the lower; only entries with in[i]
 * (in null: all). -1 if there is none. Begins without a barrier. */
KV_DEVICE int kv_gpu_argmin(kv_gpu_at &at, const float *score, int n,
                            const uint8_t *in) {
  uint64_t best = 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    if (in && !in[i]) continue;
    uint64_t own = (uint64_t)~kv_key(score[i]) << 32 | ~(uint32_t)i;
    best = own > best ? own : best;
  }
  best = kv_block_max(best);
  int one = best ? (int)~(uint32_t)best : -1;
  kv_gpu_show_one(at, score, n, in, one);
  return one;
}

/* Index of the last in the ranking: of the smallest the one with the highest
 * index; n >= 1. Begins without a barrier. */
KV_DEVICE int kv_gpu_last(const float *score, int n) {
  uint64_t last = 0;
  kv_block_read<KV_LOADS>(score, n, [&](int i, const float *own, int each) {
    KV_UNROLL
    for (int j = 0; j < each; j++) {
      uint64_t x = (uint64_t)~kv_key(own[j]) << 32 | (uint32_t)(i + j);
      last = x > last ? x : last;
    }
  });
  return (int)(uint32_t)kv_block_max(last);
}

/* kv_first_full: the first of the last entries below `end` of which one side
 * (lane->k or lane->v) was never rewritten; `end` where the last one was.
 * Looked for from the youngest, KV_BLOCK entries at a time. Begins without a
 * barrier. */
KV_DEVICE int kv_gpu_first_full(const kv_cell_ref *side, int end) {
  for (int high = end; high > 0; high -= KV_BLOCK) {
    int i = high - 1 - kv_thread();
    bool coded = i >= 0 && side[i].format != KV_RAW;
    int last = (int)kv_block_max(coded ? (uint32_t)i + 1 : 0);
    if (last > 0) return last;
  }
  return 0;
}

#endif
