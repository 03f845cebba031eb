/* SPDX-License-Identifier: Apache-2.0
 *
 * The tiers of a cascade (Hard-KV) on a device: the twin of
 * ref/parts/cascade.h, which defines how a poll's votes change a lane. A
 * method's view calls kv_gpu_cascade_view; its compress_lane opens a poll
 * (gpu/parts/votes.cuh), lists the poll's entries by kv_gpu_cascade_asked, runs
 * it, then calls kv_gpu_cascade_compress. All threads of the block call every
 * function together with the same arguments, like verbs, except
 * kv_gpu_cascade_asks. Places are those of the poll's entries, p.entry[0..p.n).
 */
#ifndef KV_GPU_CASCADE_CUH
#define KV_GPU_CASCADE_CUH

#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts.cuh"
#include "gpu/parts/votes.cuh"

extern "C" {
#include "ref/parts/cascade.h"
}

/* --- merging pair by pair ------------------------------------------------- */

/* Merges entries that would be dropped into entries that stay: the twin of
 * ref/parts/cascade.h. All threads of the block call both functions together
 * with the same arguments. */

/* a[list[i]] = -a[list[i]], i < n. Begins and ends with a barrier. */
KV_DEVICE void kv_gpu_turn_signs(int n, const int32_t *list, float *a) {
  __syncthreads();
  for (int i = kv_thread(); i < n; i += KV_BLOCK) a[list[i]] = -a[list[i]];
  __syncthreads();
}

/* Merges entries goes[0..m), from the least a on, into stays[0..n), from the
 * largest a on, in turn, weighted by a [lane->n] (one number an entry, >= 0).
 * An entry of weight 0 is not merged. Merged entries are marked. Sorts both
 * lists and changes a. Does nothing if n is 0. */
KV_DEVICE void kv_gpu_condense(kv_gpu_at &at, kv_gpu_lane *lane, int n,
                               int32_t *stays, int m, int32_t *goes, float *a) {
  if (n == 0) return;
  kv_gpu_order(at, a, n, stays);
  kv_gpu_turn_signs(m, goes, a);
  kv_gpu_order(at, a, m, goes);
  kv_gpu_turn_signs(m, goes, a);
  for (int i = 0; i < m; i++) {
    int into = stays[i % n], from = goes[i];
    float x = a[into], y = a[from];
    if (!(y > 0)) continue;
    kv_gpu_merge(at, lane, into, from, x, y);
    if (kv_thread() == 0) a[into] = kv_add(x, y);
    __syncthreads();
  }
}

/* view: in[i] = 1 for entries that are read, i < lane->n. */
KV_DEVICE void kv_gpu_cascade_view(const kv_gpu_lane *lane, uint8_t *in) {
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    in[i] = lane->tier[i] == KV_CASCADE_READ;
  __syncthreads();
}

/* True if a poll asks about entry i. By any thread. */
KV_DEVICE bool kv_gpu_cascade_asks(const kv_cascade &c, const kv_gpu_lane *lane,
                                   int i) {
  return c.as_shipped || lane->tier[i] == KV_CASCADE_READ;
}

/* Lists the entries that a poll asks about into entry, ascending; returns how
 * many. flag [lane->n]: scratch. */
KV_DEVICE int kv_gpu_cascade_asked(const kv_cascade &c, const kv_gpu_lane *lane,
                                   uint8_t *flag, int32_t *entry) {
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    flag[i] = kv_gpu_cascade_asks(c, lane, i);
  __syncthreads();
  return kv_gpu_indexes(0, lane->n, flag, true, entry);
}

/* A poll whose votes are counted, by place; in the hook's workspace. */
typedef struct kv_gpu_counted {
  uint8_t *protects; /* [p.n] 1: a rule keeps the entry regardless of votes */
  uint8_t *chosen;   /* [p.n] 1: it stays, by a rule or by a vote */
  uint8_t *flag;     /* [lane->n] scratch */
  int32_t *list;     /* [lane->n] scratch */
  int n;             /* how many are chosen */
} kv_gpu_counted;

/* Counts them. */
KV_DEVICE kv_gpu_counted kv_gpu_count(kv_gpu_at &at, const kv_gpu_lane *lane,
                                      const kv_cascade &c,
                                      const kv_gpu_poll &p) {
  kv_gpu_counted x = {
      KV_GPU_TAKE(at, uint8_t, lane->n), KV_GPU_TAKE(at, uint8_t, lane->n),
      KV_GPU_TAKE(at, uint8_t, lane->n), KV_GPU_TAKE(at, int32_t, lane->n), 0};
  for (int i = kv_thread(); i < p.n; i += KV_BLOCK) {
    int place = p.entry[i], token = (int)lane->id[place];
    x.protects[i] = kv_cascade_protects(&c, at.step, lane->n, place, token);
    x.chosen[i] = x.protects[i] || p.votes[i] > 0;
    x.n += x.chosen[i];
  }
  x.n = kv_block_sum(x.n);
  return x;
}

/* Lists the places, ascending, whose flags are these; returns how many. */
KV_DEVICE int kv_gpu_counted_list(const kv_gpu_counted &x, int n, bool chosen,
                                  bool protects, int32_t *list) {
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    x.flag[i] =
        (x.chosen[i] != 0) == chosen && (x.protects[i] != 0) == protects;
  __syncthreads();
  return kv_gpu_indexes(0, n, x.flag, true, list);
}

/* If more than c.upper are chosen, unchooses those that no rule protects and
 * that have the fewest votes, then the least probability. */
KV_DEVICE void kv_gpu_cut(kv_gpu_at &at, const kv_cascade &c,
                          const kv_gpu_poll &p, const kv_gpu_counted &x) {
  int over = x.n - c.upper;
  if (over <= 0) return;
  int m = kv_gpu_counted_list(x, p.n, true, false, p.order);
  for (int i = kv_thread(); i < m; i += KV_BLOCK) /* the younger first */
    x.list[i] = p.order[m - 1 - i];
  kv_gpu_scores(p.mass, p.n, p.g);
  kv_gpu_order(at, p.g, m, x.list);
  for (int i = kv_thread(); i < p.n; i += KV_BLOCK) p.g[i] = (float)p.votes[i];
  __syncthreads();
  kv_gpu_order(at, p.g, m, x.list);
  for (int i = kv_thread(); i < over; i += KV_BLOCK)
    x.chosen[x.list[m - 1 - i]] = 0;
  __syncthreads();
}

/* The poll's entries whose flag `chosen` is `is` become of class `to`. */
KV_DEVICE void kv_gpu_cascade_retier(kv_gpu_at &at, kv_gpu_lane *lane,
                                     const kv_gpu_poll &p,
                                     const kv_gpu_counted &x, bool is, int to) {
  for (int i = kv_thread(); i < p.n; i += KV_BLOCK)
    x.flag[i] = (x.chosen[i] != 0) == is && lane->tier[p.entry[i]] != to;
  __syncthreads();
  int n = kv_gpu_indexes(0, p.n, x.flag, true, x.list);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    x.list[i] = p.entry[x.list[i]];
  __syncthreads();
  kv_gpu_retier(at, lane, n, x.list, to);
}

/* kv_gpu_counted_list, of entries of the lane. */
KV_DEVICE int kv_gpu_counted_entries(const kv_gpu_counted &x,
                                     const kv_gpu_poll &p, bool chosen,
                                     bool protects, int32_t *list) {
  int n = kv_gpu_counted_list(x, p.n, chosen, protects, list);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) list[i] = p.entry[list[i]];
  __syncthreads();
  return n;
}

/* Merges the poll's entries that are not chosen into those that are chosen and
 * that no rule protects. */
KV_DEVICE void kv_gpu_counted_condense(kv_gpu_at &at, kv_gpu_lane *lane,
                                       const kv_gpu_poll &p,
                                       const kv_gpu_counted &x) {
  float *a = KV_GPU_TAKE(at, float, lane->n);
  int32_t *goes = KV_GPU_TAKE(at, int32_t, lane->n);
  int32_t *stays = KV_GPU_TAKE(at, int32_t, lane->n);
  for (int i = kv_thread(); i < p.n; i += KV_BLOCK)
    a[p.entry[i]] = kv_unfix(p.share[i]);
  __syncthreads();
  int m = kv_gpu_counted_entries(x, p, false, false, goes);
  int n = kv_gpu_counted_entries(x, p, true, false, stays);
  kv_gpu_condense(at, lane, n, stays, m, goes, a);
}

/* The lane holds more than c.upper: drops entries that are not chosen. */
KV_DEVICE void kv_gpu_cascade_rewrite(kv_gpu_at &at, kv_gpu_lane *lane,
                                      const kv_cascade &c, const kv_gpu_poll &p,
                                      const kv_gpu_counted &x) {
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, lane->n);
  kv_gpu_cut(at, c, p, x);
  kv_gpu_flag_all(keep, lane->n, false);
  __syncthreads();
  for (int i = kv_thread(); i < p.n; i += KV_BLOCK)
    keep[p.entry[i]] = x.chosen[i];
  __syncthreads();
  if (c.merge) kv_gpu_counted_condense(at, lane, p, x);
  kv_gpu_keep_mask(at, lane, keep);
}

/* --- as shipped: the poll is about all entries ---------------------------- */

/* Lists up to c.upper entries: sinks, the last ones from the newest on, those
 * with a vote, the rest; x.chosen becomes 1 for these. Returns how many. */
KV_DEVICE int kv_gpu_by_priority(const kv_cascade &c, const kv_gpu_poll &p,
                                 const kv_gpu_counted &x, int32_t *list) {
  int all = p.n, n = c.sinks + c.last;
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    list[i] = i < c.sinks ? i : all - 1 - (i - c.sinks);
  n += kv_gpu_counted_list(x, all, true, false, list + n);
  n += kv_gpu_counted_list(x, all, false, false, list + n);
  if (n > c.upper) n = c.upper;
  kv_gpu_flag_all(x.chosen, all, false);
  __syncthreads();
  for (int i = kv_thread(); i < n; i += KV_BLOCK) x.chosen[list[i]] = 1;
  __syncthreads();
  return n;
}

/* kv_gpu_cascade_rewrite as the authors' code does it: these stay, in that
 * order. */
KV_DEVICE void kv_gpu_rewrite_as_shipped(kv_gpu_at &at, kv_gpu_lane *lane,
                                         const kv_cascade &c,
                                         const kv_gpu_poll &p,
                                         const kv_gpu_counted &x) {
  int32_t *list = p.order;
  int n = kv_gpu_by_priority(c, p, x, list);
  kv_gpu_cascade_retier(at, lane, p, x, true, KV_CASCADE_READ);
  if (c.merge) kv_gpu_counted_condense(at, lane, p, x);
  kv_gpu_keep(at, lane, n, list);
}

/* Changes the lane by the poll's votes; p.order and p.g are scratch. */
KV_DEVICE void kv_gpu_cascade_compress(kv_gpu_at &at, kv_gpu_lane *lane,
                                       const kv_cascade &c,
                                       const kv_gpu_poll &p) {
  kv_gpu_counted x = kv_gpu_count(at, lane, c, p);
  if (lane->n > c.upper) {
    if (c.as_shipped)
      kv_gpu_rewrite_as_shipped(at, lane, c, p, x);
    else
      kv_gpu_cascade_rewrite(at, lane, c, p, x);
    return;
  }
  kv_gpu_cascade_retier(at, lane, p, x, false, KV_CASCADE_HIDDEN);
  kv_gpu_cascade_retier(at, lane, p, x, true, KV_CASCADE_READ);
}

#endif
