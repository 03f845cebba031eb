/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs by which entries go, kv_sweep and kv_keep of ref/lane/lane.h: by a
 * list, by a mask, or of one entry that is known. Methods call the four that
 * take `at`; gpu/lane/verbs.cuh says how verbs are called. The others are their
 * steps: all threads of the block call them together with the same arguments,
 * and they end with a barrier. Cost: O(entries / KV_BLOCK); where the lane has
 * rewritten entries also O(those that go), as one thread frees what these hold.
 */
#ifndef KV_GPU_KEEP_CUH
#define KV_GPU_KEEP_CUH

#include "gpu/block/array.cuh"
#include "gpu/lane/record.cuh"

/* --- sweep --------------------------------------------------------------- */

/* Fills lane->spare with flags, and returns them: 1 for entries from..n-1 that
 * are live and, unless keep is NULL, have keep[i]. */
KV_DEVICE const uint8_t *kv_gpu_unmarked(kv_gpu_lane *lane, int from, int n,
                                         const uint8_t *keep) {
  uint8_t *live = (uint8_t *)lane->spare;
  for (int i = from + kv_thread(); i < n; i += KV_BLOCK)
    live[i] = lane->weight[i] != 0 && (!keep || keep[i]);
  __syncthreads();
  return live;
}

/* kv_sweep: removes the marked entries; the others keep their order. Nothing
 * where none is marked. A method calls it only where it needs places without
 * gaps within a hook. */
KV_DEVICE void kv_gpu_sweep(kv_gpu_at &at, kv_gpu_lane *lane) {
  int n = lane->n, marked = lane->marked, from = lane->first_marked;
  int32_t *list = lane->list;
  if (marked == 0) return;
  if (marked > 1)
    kv_gpu_indexes(from, n, kv_gpu_unmarked(lane, from, n, nullptr), true,
                   list + from);
  kv_gpu_pull<1>(*at.layer, lane, n - marked - from, from,
                 marked > 1 ? list : nullptr);
  if (kv_thread() == 0) {
    lane->n = n - marked;
    lane->marked = lane->tail = 0;
  }
  __syncthreads();
}

/* --- keep ---------------------------------------------------------------- */

/* True if list[0..n) ascends. *first: the first i with list[i] != i, n where
 * there is none. */
KV_DEVICE bool kv_gpu_ascends(int n, const int32_t *list, int *first) {
  int at = n;
  bool down = false;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    if (list[i] != i && i < at) at = i;
    if (i > 0 && list[i] <= list[i - 1]) down = true;
  }
  *first = n - (int)kv_block_max((uint32_t)(n - at));
  return !kv_block_any(down);
}

/* Fills lane->spare with flags, and returns them: 1 for entries from..all-1
 * that are in list[0..n), or marked, which are not to be dropped again. */
KV_DEVICE uint8_t *kv_gpu_stays(kv_gpu_lane *lane, int from, int all, int n,
                                const int32_t *list) {
  uint8_t *stays = (uint8_t *)lane->spare;
  for (int i = from + kv_thread(); i < all; i += KV_BLOCK)
    stays[i] = lane->weight[i] == 0;
  __syncthreads();
  for (int i = from + kv_thread(); i < n; i += KV_BLOCK) stays[list[i]] = 1;
  __syncthreads();
  return stays;
}

/* Sorts m distinct ids; does nothing if they already ascend, else counts those
 * below each: O(m * m / KV_BLOCK). */
KV_DEVICE void kv_gpu_sort_ids(kv_gpu_lane *lane, int m, uint32_t *id) {
  uint32_t *from = (uint32_t *)lane->spare;
  bool down = false;
  for (int i = 1 + kv_thread(); i < m; i += KV_BLOCK) down |= id[i] < id[i - 1];
  if (!kv_block_any(down)) return;
  for (int i = kv_thread(); i < m; i += KV_BLOCK) from[i] = id[i];
  __syncthreads();
  for (int i = kv_thread(); i < m; i += KV_BLOCK) {
    int below = 0;
    for (int j = 0; j < m; j++) below += from[j] < from[i];
    id[below] = from[i];
  }
  __syncthreads();
}

/* Frees the rows and blocks of the m entries whose indexes, ascending, are in
 * gone, and puts their ids, ascending, in the place of the indexes. */
KV_DEVICE void kv_gpu_drop_listed(kv_gpu_lane *lane, int m, uint32_t *gone) {
  int rewritten = lane->rewritten;
  int k_free = lane->k_raw.n_free, v_free = lane->v_raw.n_free;
  __syncthreads();
  if (rewritten) {
    for (int j = 0; kv_thread() == 0 && j < m; j++)
      kv_gpu_drop_entry(lane, (int)gone[j]);
    __syncthreads();
  }
  for (int j = kv_thread(); j < m; j += KV_BLOCK) {
    uint32_t i = gone[j];
    if (!rewritten) lane->k_raw.free[k_free + j] = lane->k[i].block;
    if (!rewritten) lane->v_raw.free[v_free + j] = lane->v[i].block;
    gone[j] = lane->id[i];
  }
  if (kv_thread() == 0 && !rewritten) {
    lane->k_raw.n_free = k_free + m;
    lane->v_raw.n_free = v_free + m;
  }
  __syncthreads();
  kv_gpu_sort_ids(lane, m, gone);
}

/* What a keep leaves. */
typedef struct kv_gpu_kept {
  int n, m, first; /* entries that stay, that go; the first i, list[i] != i */
  const int32_t *list; /* [n] who stays, by index; if it ascends, what stands
                          before `first` is not read */
  bool ascending;      /* the list ascends */
} kv_gpu_kept;

/* The end of a keep: w[1 ..] of the open record has the indexes of the m
 * entries that go. Drops them, moves the others up, and completes the record.
 */
KV_DEVICE void kv_gpu_close_up(const kv_gpu_layer &l, kv_gpu_lane *lane,
                               const kv_gpu_kept &to, uint32_t *w) {
  kv_gpu_drop_listed(lane, to.m, w + 1);
  if (to.ascending)
    kv_gpu_pull<1>(l, lane, to.n - to.first, to.first, to.list);
  else
    kv_gpu_permute(l, lane, to.n, to.list);
  if (kv_thread() == 0) {
    w[0] = (uint32_t)to.m;
    w[1 + to.m] = !to.ascending;
    if (to.m) lane->dropped = 1;
    if (to.first < to.n) lane->holes = 1;
    lane->n = to.n;
    lane->marked = lane->tail = 0;
  }
  __syncthreads();
}

/* kv_keep: of the lane the live entries list[0..n) remain, in that order, each
 * listed once; what is marked is swept. list may be lane->list. */
KV_DEVICE void kv_gpu_keep(kv_gpu_at &at, kv_gpu_lane *lane, int n,
                           const int32_t *list) {
  const kv_gpu_layer &l = *at.layer;
  int all = lane->n, m = all - lane->marked - n, first;
  bool ascending = kv_gpu_ascends(n, list, &first);
  int from = ascending ? first : 0;
  if (ascending && m == 0) {
    kv_gpu_sweep(at, lane);
    return;
  }
  uint32_t *w = kv_gpu_record(l, lane, KV_KEEP, m + 2 + (ascending ? 0 : n));
  if (!w) return;
  const uint8_t *stays = kv_gpu_stays(lane, from, all, n, list);
  kv_gpu_indexes(from, all, stays, false, (int32_t *)(w + 1));
  for (int i = kv_thread(); !ascending && i < n; i += KV_BLOCK)
    w[2 + m + i] = lane->id[list[i]];
  kv_gpu_close_up(l, lane, kv_gpu_kept{n, m, first, list, ascending}, w);
}

/* kv_keep of all but entry i, the same for all threads; none may be marked. */
KV_DEVICE void kv_gpu_drop_one(kv_gpu_at &at, kv_gpu_lane *lane, int i) {
  const kv_gpu_layer &l = *at.layer;
  int n = lane->n - 1;
  assert(lane->marked == 0 && "a merge before it needs a sweep between them");
  uint32_t *w = kv_gpu_record(l, lane, KV_KEEP, 3);
  if (!w) return;
  if (kv_thread() == 0) {
    w[0] = 1;
    w[1] = lane->id[i];
    w[2] = 0;
    kv_gpu_drop_entry(lane, i);
    lane->dropped = 1;
    if (i < n) lane->holes = 1;
    lane->n = n;
    lane->tail = 0;
  }
  kv_gpu_pull<1>(l, lane, n - i, i, nullptr);
}

/* kv_keep of the live entries with keep[i] != 0, in the order that they have;
 * keep [n] may not be lane->spare. */
KV_DEVICE void kv_gpu_keep_mask(kv_gpu_at &at, kv_gpu_lane *lane,
                                const uint8_t *keep) {
  const kv_gpu_layer &l = *at.layer;
  int all = lane->n;
  if (lane->marked) {
    keep = kv_gpu_unmarked(lane, 0, all, keep);
    int n = kv_gpu_indexes(0, all, keep, true, lane->list);
    kv_gpu_keep(at, lane, n, lane->list);
    return;
  }
  uint32_t *gone = (uint32_t *)lane->spare;
  int m = kv_gpu_indexes(0, all, keep, false, (int32_t *)gone), n = all - m;
  if (m == 0) return;
  int first = (int)gone[0];
  if (m == 1) {
    kv_gpu_drop_one(at, lane, first);
    return;
  }
  uint32_t *w = kv_gpu_record(l, lane, KV_KEEP, m + 2);
  if (!w) return;
  for (int j = kv_thread(); j < m; j += KV_BLOCK) w[1 + j] = gone[j];
  kv_gpu_indexes(first, all, keep, true, lane->list + first);
  kv_gpu_close_up(
      l, lane, kv_gpu_kept{n, m, first < n ? first : n, lane->list, true}, w);
}

#endif
