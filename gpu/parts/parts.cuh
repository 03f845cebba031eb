/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranking, as in ref/parts/parts.h: top, top over lanes, top-p, argmin, hashes.
 * All threads of the block call every function together with the same
 * arguments, which may be in each thread's own memory, and get the same answer;
 * unless stated otherwise each begins and ends with a barrier, so scores may be
 * written just before and results read at once. Scores are of entries, flags a
 * byte an entry, both in global memory. They show scores to `kvreplay check`
 * where ref does. Nothing can fail. Cost: gpu/block/radix.cuh.
 */
#ifndef KV_GPU_PARTS_CUH
#define KV_GPU_PARTS_CUH

#include "gpu/block/array.cuh"
#include "gpu/block/radix.cuh"
#include "gpu/lane/method.cuh"
#include "gpu/lane/verbs.cuh"
#include "ref/ground/choice.h"
#include "ref/ground/formula.h"

extern "C" {
#include "ref/parts/parts.h"
}

/* --- what selections are shown -------------------------------------------- */

/* Records the scores that selections see, for `kvreplay check`, if the plan
 * asks for it (at.shown), as ref/parts/parts.c does. The selections of
 * gpu/parts call kv_gpu_show before they select, or kv_gpu_show_one after. By
 * all threads of the block together with the same arguments; if not requested,
 * each of these two is a branch without a barrier. Cost: one read and one write
 * of the scores. */

/* Appends list number `list` of `lists` of one selection: its n scores, of
 * which those with in[i] 0 could not be chosen (in null: all could). chose: the
 * kind of selection. What does not fit is counted in shown->lost. at.shown must
 * not be NULL. Begins and ends with a barrier. */
KV_DEVICE void kv_gpu_show_list(const kv_gpu_at &at, kv_chose chose, int list,
                                int lists, const float *score, int n,
                                const uint8_t *in) {
  kv_gpu_shown *shown = at.shown;
  __syncthreads();
  int from = shown->n;
  bool fits = n <= shown->cap - from - KV_GPU_SHOWN_HEAD;
  uint32_t *to = shown->word + from;
  __syncthreads();
  if (kv_thread() == 0 && fits) {
    to[0] = (uint32_t)chose;
    to[1] = (uint32_t)at.head;
    to[2] = (uint32_t)list;
    to[3] = (uint32_t)lists;
    to[4] = (uint32_t)n;
    shown->n = from + KV_GPU_SHOWN_HEAD + n;
  } else if (kv_thread() == 0) {
    shown->lost++;
  }
  for (int i = kv_thread(); fits && i < n; i += KV_BLOCK)
    to[KV_GPU_SHOWN_HEAD + i] = in && !in[i] ? KV_SHOWN_OUT : kv_bits(score[i]);
  __syncthreads();
}

/* A selection over `lists` lists score[l] [n[l]]. */
KV_DEVICE void kv_gpu_show(const kv_gpu_at &at, kv_chose chose,
                           const float *const *score, const int *n, int lists) {
  for (int l = 0; at.shown && l < lists; l++)
    kv_gpu_show_list(at, chose, l, lists, score[l], n[l], nullptr);
}

/* The choice of `one` among the n entries with in[i] (in null: all); -1: there
 * was none, and nothing is recorded. */
KV_DEVICE void kv_gpu_show_one(const kv_gpu_at &at, const float *score, int n,
                               const uint8_t *in, int one) {
  if (at.shown && one >= 0)
    kv_gpu_show_list(at, KV_CHOSE_ONE, 0, 1, score, n, in);
}

/* --- a whole ranking ------------------------------------------------------ */

/* A complete ranking as a list, as in ref/parts/parts.c: kv_gpu_order is a
 * stable radix sort over kv_key, 8 bits a pass, by one block; the others are
 * its steps, called by all threads of the block together unless stated
 * otherwise. Each warp has its own run of the list, 32 entries at a time, and
 * gets the place of its next entry of each digit from the histograms of all
 * warps. Cost: four passes over the list. */

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

/* Sorts the entry indexes list[0..n) by falling score[entry]; equals keep their
 * order in the list. Takes n indexes of workspace and frees them. By all
 * threads of the block together; begins and ends with a barrier. */
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

/* `count` items of one lane and their flags, all by value, so that a
 * selection's arguments stay in registers. */
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

/* The largest of s[0..n), n >= 1, by kv_key. Begins without a barrier: only
 * thread t reads s[t], s[t + KV_BLOCK], .. */
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
 * (lane->k or lane->v) was never rewritten; `end` if the last one was. The
 * search starts at the newest, KV_BLOCK entries at a time. Begins without a
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

/* --- scores --------------------------------------------------------------- */

/* Scores, as in ref/parts/parts.h: from sums of probabilities in fixed point
 * (times 2^40, so that no order changes them), pooling, the observation
 * window's sums; and the keep rules that most evicting methods share. Unless
 * stated otherwise, all threads of the block call a function together with the
 * same arguments, and it ends with a barrier, so results may be read at once.
 * Each entry is computed by one thread, with the reference's chain of
 * operations. Arrays are in global memory and have one number an entry. */

/* out[i] = RN32(sum[i]) * 2^-40, i < n. */
KV_DEVICE void kv_gpu_scores(const int64_t *sum, int n, float *out) {
  kv_block_read<KV_LOADS>(sum, n, [&](int i, const int64_t *own, int each) {
    KV_UNROLL
    for (int j = 0; j < each; j++) out[i + j] = kv_unfix(own[j]);
  });
  __syncthreads();
}

/* score[i], i < n, divided by how many query rows saw token id[i] when `step`
 * tokens were seen. */
KV_DEVICE void kv_gpu_scores_seen(int step, const uint32_t *id, int n,
                                  float *score) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    score[i] = kv_div(score[i], (float)(step - (int)id[i]));
  __syncthreads();
}

/* --- pooling ------------------------------------------------------------ */

/* The first and the last of n places within half a kernel of place i. By any
 * thread. */
KV_DEVICE int kv_pool_low(int i, int half) { return i < half ? 0 : i - half; }
KV_DEVICE int kv_pool_high(int i, int half, int n) {
  return i + half < n ? i + half : n - 1;
}

/* Poolings max, sum and avg. out[i], i < n: the largest, the sum, the average
 * of `kernel` (odd) neighbours of in[i]. Places past the ends are skipped in
 * max, and 0 in the others. out must not be in. */
KV_DEVICE void kv_gpu_pool_max(const float *in, int n, int kernel, float *out) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    int j = kv_pool_low(i, kernel / 2), last = kv_pool_high(i, kernel / 2, n);
    float m = in[j];
    for (j++; j <= last; j++) m = kv_max(m, in[j]);
    out[i] = m;
  }
  __syncthreads();
}

KV_DEVICE void kv_gpu_pool_sum(const int64_t *in, int n, int kernel,
                               int64_t *out) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    int j = kv_pool_low(i, kernel / 2), last = kv_pool_high(i, kernel / 2, n);
    int64_t sum = 0;
    for (; j <= last; j++) sum += in[j];
    out[i] = sum;
  }
  __syncthreads();
}

KV_DEVICE void kv_gpu_pool_avg(const float *in, int n, int kernel, float *out) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    int j = kv_pool_low(i, kernel / 2), last = kv_pool_high(i, kernel / 2, n);
    float sum = 0;
    for (; j <= last; j++) sum = kv_add(sum, in[j]);
    out[i] = kv_div(sum, (float)kernel);
  }
  __syncthreads();
}

/* --- the observation window's sums ----------------------------------------
 * In the lane's state: planes of n_tokens sums. group: a kv_group_rule. */

/* How many planes a lane has: one, or one for each query head; and plane number
 * `plane`. By any thread. */
KV_DEVICE int kv_gpu_window_planes(const kv_gpu_lane *lane, int group) {
  return group == KV_GROUP_MAX ? lane->queries : 1;
}

KV_DEVICE int64_t *kv_gpu_window_sums(const kv_gpu_at &at,
                                      const kv_gpu_lane *lane, int plane) {
  size_t n = (size_t)at.layer->shape.n_tokens;
  return (int64_t *)kv_gpu_own(at, lane) + (size_t)plane * n;
}

/* sum[i] += the rows' sums of heads [h, end), for the block's entries of an
 * observation that may have several blocks a lane. No barrier. */
KV_DEVICE void kv_gpu_add_heads(const kv_gpu_rows &rows, int h, int end,
                                int64_t *sum) {
  for (int i = kv_gpu_first_entry(); i < rows.entries;
       i += kv_gpu_next_entry()) {
    int64_t own = sum[i];
    for (int j = h; j < end; j++)
      own += rows.sum[(size_t)j * rows.stride + (size_t)i];
    sum[i] = own;
  }
}

/* observe, started by kv_on_observe_entries: adds the rows' sums to the lane's.
 */
KV_DEVICE void kv_gpu_window_add(kv_gpu_at &at, kv_gpu_lane *lane,
                                 const kv_gpu_rows &rows, int group) {
  int planes = kv_gpu_window_planes(lane, group);
  if (planes == 1)
    kv_gpu_add_heads(rows, 0, rows.heads, kv_gpu_window_sums(at, lane, 0));
  else
    for (int h = 0; h < planes; h++)
      kv_gpu_add_heads(rows, h, h + 1, kv_gpu_window_sums(at, lane, h));
  __syncthreads();
}

/* Zeroes the lane's sums. */
KV_DEVICE void kv_gpu_window_clear(kv_gpu_at &at, kv_gpu_lane *lane,
                                   int group) {
  int planes = kv_gpu_window_planes(lane, group);
  for (int h = 0; h < planes; h++) {
    int64_t *sum = kv_gpu_window_sums(at, lane, h);
    for (int i = kv_thread(); i < at.layer->shape.n_tokens; i += KV_BLOCK)
      sum[i] = 0;
  }
  __syncthreads();
}

/* out[0..n): the scores of sum[0..n), pooled (a kv_pooling). An average leaves
 * them sums: its divisor is not applied. */
KV_DEVICE void kv_gpu_score_sums(kv_gpu_at &at, const int64_t *sum, int pooling,
                                 int kernel, int n, float *out) {
  size_t used = at.used;
  if (pooling == KV_POOL_NONE) {
    kv_gpu_scores(sum, n, out);
  } else if (pooling == KV_POOL_AVG) {
    int64_t *pooled = KV_GPU_TAKE(at, int64_t, n);
    kv_gpu_pool_sum(sum, n, kernel, pooled);
    kv_gpu_scores(pooled, n, out);
  } else {
    float *f = KV_GPU_TAKE(at, float, n);
    kv_gpu_scores(sum, n, f);
    kv_gpu_pool_max(f, n, kernel, out);
  }
  at.used = used;
}

/* The largest over the lane's query heads of the score of entry i. By any
 * thread. */
KV_DEVICE float kv_gpu_max_plane(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                 int i) {
  float m = kv_unfix(kv_gpu_window_sums(at, lane, 0)[i]);
  for (int h = 1; h < lane->queries; h++)
    m = kv_max(m, kv_unfix(kv_gpu_window_sums(at, lane, h)[i]));
  return m;
}

/* out[i] = the same of entry first + i, i < n. */
KV_DEVICE void kv_gpu_max_planes(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                 int first, int n, float *out) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    out[i] = kv_gpu_max_plane(at, lane, first + i);
  __syncthreads();
}

/* out[0..n): the scores of entries first .. by the window's sums: the heads'
 * joined by the group rule, then pooled. Takes workspace and frees it. */
KV_DEVICE void kv_gpu_window_score_from(kv_gpu_at &at, const kv_gpu_lane *lane,
                                        int group, int pooling, int kernel,
                                        int first, int n, float *out) {
  size_t used = at.used;
  if (kv_gpu_window_planes(lane, group) == 1) {
    kv_gpu_score_sums(at, kv_gpu_window_sums(at, lane, 0) + first, pooling,
                      kernel, n, out);
  } else if (pooling == KV_POOL_NONE) {
    kv_gpu_max_planes(at, lane, first, n, out);
  } else {
    float *best = KV_GPU_TAKE(at, float, n);
    kv_gpu_max_planes(at, lane, first, n, best);
    if (pooling == KV_POOL_MAX)
      kv_gpu_pool_max(best, n, kernel, out);
    else
      kv_gpu_pool_avg(best, n, kernel, out);
  }
  at.used = used;
}

/* observe, started by kv_on_observe_entries: the method's column c of int64 +=
 * the rows' sums over the lane's query heads. */
KV_DEVICE void kv_gpu_column_add(kv_gpu_at &at, kv_gpu_lane *lane, int c,
                                 const kv_gpu_rows &rows) {
  kv_gpu_add_heads(rows, 0, rows.heads, kv_gpu_column_int64(at, lane, c));
  __syncthreads();
}

/* --- keeping ------------------------------------------------------------ */

/* The first `sink` and the last `recent` entries of the lane remain; does
 * nothing while it holds no more than both. */
KV_DEVICE void kv_gpu_keep_ends(kv_gpu_at &at, kv_gpu_lane *lane, int sink,
                                int recent) {
  int gone = lane->n - sink - recent;
  if (gone <= 0) return;
  for (int i = kv_thread(); i < sink + recent; i += KV_BLOCK)
    lane->list[i] = i < sink ? i : i + gone;
  __syncthreads();
  kv_gpu_keep(at, lane, sink + recent, lane->list);
}

/* Of the first `past` entries the `heavy` of largest score[0..past) remain, and
 * all after them; does nothing while past <= heavy. */
KV_DEVICE void kv_gpu_keep_top_recent(kv_gpu_at &at, kv_gpu_lane *lane,
                                      const float *score, int past, int heavy) {
  if (past <= heavy) return;
  if (past == heavy + 1) { /* as at every step of decoding */
    kv_gpu_show(at, KV_CHOSE_K, &score, &past, 1);
    kv_gpu_drop_one(at, lane, kv_gpu_last(score, past));
    return;
  }
  int n = lane->n;
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  kv_gpu_flag_all(keep + past, n - past, true);
  kv_gpu_top(at, score, past, heavy, keep);
  kv_gpu_keep_mask(at, lane, keep);
}

#endif
