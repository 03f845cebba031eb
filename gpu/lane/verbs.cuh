/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs on a device, the only way in which a hook changes what its lane
 * stores: kv_gpu_keep, _keep_mask, _drop_one, _sweep, _merge, _move and
 * _retier; gpu/lane/recode.cuh has _recode. Each does what the verb of that
 * name does in ref/lane/lane.h (_drop_one what kv_keep does), equal record for
 * record and bit for bit.
 *
 * All threads of the lane's block call a verb together with the same arguments;
 * none may diverge around it. A list may be in global memory, or in each
 * thread's own if all hold the same; it stays the caller's. At the beginning
 * and end of a verb every thread sees what the others wrote. Verbs use no
 * shared memory of the caller. Rules are asserted. A failure is stored in
 * lane->fault (a mean or a scale that is not finite, a full journal, a block
 * without a page), and the hook continues.
 *
 * Cost: of keep and sweep below; of a move O(entries that shift / KV_BLOCK), of
 * a retier O(entries listed / KV_BLOCK). A merge is O((d + d_v) / KV_BLOCK),
 * because the dropped entry is only marked, and swept when the hook returns.
 */
#ifndef KV_GPU_VERBS_CUH
#define KV_GPU_VERBS_CUH

#include "gpu/block/array.cuh"
#include "gpu/lane/entry.cuh"

/* --- entries go ----------------------------------------------------------- */

/* The verbs that drop entries, kv_sweep and kv_keep of ref/lane/lane.h: by a
 * list, by a mask, or one known entry. Methods call the four that take `at`.
 * The others are their steps: all threads of the block call them together with
 * the same arguments, and they end with a barrier. Cost: O(entries / KV_BLOCK);
 * if the lane has rewritten entries also O(dropped ones), because one thread
 * frees what these hold. */

/* --- what every verb leaves behind ---------------------------------------- */

/* The records of every verb: its journal record (words as in
 * ref/lane/journal.h), the rows that it rewrote, the slab blocks that it took
 * or freed, and lane->fault, which keeps the first failure. Verbs call these
 * functions; code that finds before a verb that it is impossible also calls
 * kv_gpu_fail.
 *
 * Functions marked "The block" are called by all threads of the lane's block
 * together with the same arguments, after a barrier, and end with one. The
 * others are called by one thread between two barriers, the only one that then
 * reads and writes the lane's scalars; but any thread may call
 * kv_gpu_is_rewritten.
 *
 * The last freed block is taken first, as in ref/lane/verbs.c, so that block
 * numbers equal the reference's. Numbers of pool rows are in no digest. */

/* Records that the lane has failed, unless already recorded; id: the token that
 * kv_gpu_fault requires, else 0. The lane continues to the end of the step,
 * with meaningless numbers. */
KV_DEVICE void kv_gpu_fail(kv_gpu_lane *lane, kv_gpu_fault why, uint32_t id) {
  if (lane->fault != KV_GPU_FINE) return;
  lane->fault = why;
  lane->fault_at = (int)id;
}

/* Entries that a verb is given: list[0..n), which stays the caller's, or
 * without a list the n from `first` on. */
typedef struct kv_gpu_entries {
  int n, first;
  const int32_t *list;
  __device__ int operator[](int i) const { return list ? list[i] : first + i; }
} kv_gpu_entries;

/* Words of a record before its own (ref/lane/journal.h). */
enum { KV_GPU_HEAD = 5 };

/* The block: opens records of a verb (KV_KEEP, KV_MERGE, ..): writes their
 * heads, and returns where the first one's `count` other words are to be
 * written; the next one's are KV_GPU_HEAD + count words behind them. NULL for
 * all: the journal is full (KV_GPU_JOURNAL), and the verb must do nothing. Ends
 * without a barrier. */
KV_DEVICE uint32_t *kv_gpu_record(const kv_gpu_layer &l, kv_gpu_lane *lane,
                                  kv_record kind, int count, int records = 1) {
  int n = lane->n_verbs, words = KV_GPU_HEAD + count;
  bool fits = (int64_t)records * words <= lane->cap_verbs - n;
  const uint32_t head[KV_GPU_HEAD] = {(uint32_t)kind, (uint32_t)l.layer,
                                      (uint32_t)lane->step,
                                      (uint32_t)lane->lane, (uint32_t)count};
  __syncthreads();
  for (int j = kv_thread(); fits && j < records; j += KV_BLOCK)
    for (int w = 0; w < KV_GPU_HEAD; w++)
      lane->verbs[n + j * words + w] = head[w];
  if (kv_thread() == 0 && fits)
    lane->n_verbs = n + records * words;
  else if (kv_thread() == 0)
    kv_gpu_fail(lane, KV_GPU_JOURNAL, 0);
  return fits ? lane->verbs + n + KV_GPU_HEAD : nullptr;
}

/* The block: appends K and V of the entries, as attention reads them now, to
 * the lane's log, for the host to hash. If they do not fit, fails with
 * KV_GPU_JOURNAL. */
KV_DEVICE void kv_gpu_note(const kv_gpu_layer &l, kv_gpu_lane *lane,
                           const kv_gpu_entries &e) {
  int d = l.shape.d, wide = d + l.shape.d_v, start = lane->n_log;
  int rows = e.n < lane->cap_log - start ? e.n : lane->cap_log - start;
  for (int r = 0; r < rows; r++) {
    float *to = lane->log + (size_t)(start + r) * (size_t)wide;
    kv_gpu_row k = kv_gpu_key_row(l, lane, e[r]);
    kv_gpu_row v = kv_gpu_value_row(l, lane, e[r]);
    for (int x = kv_thread(); x < wide; x += KV_BLOCK)
      to[x] = x < d ? kv_gpu_element(k, x) : kv_gpu_element(v, x - d);
    if (kv_thread() == 0) lane->log_id[start + r] = lane->id[e[r]];
  }
  __syncthreads();
  if (kv_thread() == 0) {
    lane->n_log = start + rows;
    if (rows < e.n) kv_gpu_fail(lane, KV_GPU_JOURNAL, 0);
  }
  __syncthreads();
}

/* --- blocks of slabs, one thread ----------------------------------------- */

/* Adds the bytes of `blocks` blocks with this many members; -1: subtracts one
 * block's. */
KV_DEVICE void kv_gpu_count_blocks(kv_gpu_slab *s, int members, int blocks) {
  kv_gpu_coded_size size = kv_gpu_block_size(*s, members);
  s->codes += blocks * size.codes;
  s->metadata += blocks * size.metadata;
}

/* Records that block b was written, so that the report includes it. */
KV_DEVICE void kv_gpu_touch(kv_gpu_slab *s, int32_t b) {
  if (s->n_fresh < s->cap) s->fresh[s->n_fresh] = b;
  s->n_fresh++;
}

/* Takes a block for this many rows, records it, and returns its number. Asserts
 * that one is free: slabs have a block for every token. */
KV_DEVICE int32_t kv_gpu_take_block(kv_gpu_slab *s, int members) {
  int32_t b = s->n_free ? s->free[--s->n_free] : s->used++;
  assert(b < s->cap && "a slab has room for every token");
  kv_gpu_touch(s, b);
  s->members[b] = s->live[b] = (uint16_t)members;
  s->held += members;
  kv_gpu_count_blocks(s, members, 1);
  return b;
}

/* Releases what one side of an entry, *r, holds: its row of the pool, or its
 * place in a block of slab[r->format], which the last member frees. The caller
 * then drops the entry or sets the side to something else. */
KV_DEVICE void kv_gpu_leave(kv_gpu_raw *pool, kv_gpu_slab *slab,
                            kv_cell_ref *r) {
  if (r->format == KV_RAW) {
    pool->free[pool->n_free++] = r->block;
    return;
  }
  kv_gpu_slab *s = &slab[r->format];
  s->held--;
  if (--s->live[r->block] == 0) {
    kv_gpu_count_blocks(s, s->members[r->block], -1);
    s->free[s->n_free++] = r->block;
  }
  r->format = KV_RAW;
}

/* True if a side of entry i is merged or coded. */
KV_DEVICE bool kv_gpu_is_rewritten(const kv_gpu_lane *lane, int i) {
  return lane->k[i].format != KV_RAW || lane->v[i].format != KV_RAW;
}

/* Releases what both sides of entry i hold. */
KV_DEVICE void kv_gpu_drop_entry(kv_gpu_lane *lane, int i) {
  lane->rewritten -= kv_gpu_is_rewritten(lane, i);
  kv_gpu_leave(&lane->k_raw, lane->k_slab, &lane->k[i]);
  kv_gpu_leave(&lane->v_raw, lane->v_slab, &lane->v[i]);
}

/* The block: frees the pool rows of one side of the entries, which are all
 * KV_RAW. */
KV_DEVICE void kv_gpu_free_rows(kv_gpu_raw *pool, const kv_cell_ref *side,
                                const kv_gpu_entries &e) {
  int n_free = pool->n_free;
  __syncthreads();
  for (int j = kv_thread(); j < e.n; j += KV_BLOCK)
    pool->free[n_free + j] = side[e[j]].block;
  if (kv_thread() == 0) pool->n_free = n_free + e.n;
  __syncthreads();
}

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

/* kv_sweep: removes the marked entries; the others keep their order. Does
 * nothing if none is marked. A method calls it only if it needs places without
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

/* True if list[0..n) ascends. *first: the first i with list[i] != i; n: none.
 */
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
 * that are in list[0..n), or marked, because these must not be dropped again.
 */
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
 * gone, and replaces the indexes by their ids, ascending. */
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
  int n, m, first;     /* entries that stay; entries dropped; the first i with
                          list[i] != i */
  const int32_t *list; /* [n] indexes of entries that stay; if they ascend,
                          those before `first` are not read */
  bool ascending;      /* the list ascends */
} kv_gpu_kept;

/* The end of a keep: w[1 ..] of the open record has the indexes of the m
 * dropped entries. Drops them, moves the others up, and completes the record.
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

/* kv_keep: the live entries list[0..n) of the lane remain, in that order, each
 * listed once; marked entries are swept. list may be lane->list. */
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

/* kv_keep of the live entries with keep[i] != 0, in their order; keep [n] must
 * not be lane->spare. */
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

/* --- merge --------------------------------------------------------------- */

/* The block for the mean of one side: the entry's own, or a new one. One
 * thread's. */
KV_DEVICE int32_t kv_gpu_mean_block(kv_gpu_slab *slab, const kv_cell_ref &r) {
  if (r.format != KV_MERGED) return kv_gpu_take_block(&slab[KV_MERGED], 1);
  kv_gpu_touch(&slab[KV_MERGED], r.block);
  return r.block;
}

/* Writes y as element x of a merged row, rounded to the slab's type; false: the
 * rounded value is not finite. One thread's. */
KV_DEVICE bool kv_gpu_put(const kv_gpu_slab &s, char *row, int x, float y) {
  if (s.type == KV_F32) {
    ((float *)row)[x] = y;
    return kv_finite(y);
  }
  uint16_t half = s.type == KV_F16 ? kv_to_f16(y) : kv_to_bf16(y);
  ((uint16_t *)row)[x] = half;
  return kv_finite(kv_gpu_widen((kv_dtype)s.type, half));
}

/* Writes the weighted mean fma(a, x_into, b * x_from) / (a + b) of two rows
 * into a block, which may be the one that `into` is read from. All threads, an
 * element each, without a barrier; false: one of the thread's is not finite. */
KV_DEVICE bool kv_gpu_blend(const kv_gpu_slab &s, int32_t block, float a,
                            float b, const kv_gpu_row &into,
                            const kv_gpu_row &from) {
  char *to = s.data + (size_t)block * s.size;
  float den = kv_add(a, b);
  bool finite = true;
  for (int x = kv_thread(); x < s.width; x += KV_BLOCK) {
    float y = kv_mul(b, kv_gpu_element(from, x));
    y = kv_div(kv_fma(a, kv_gpu_element(into, x), y), den);
    finite &= kv_gpu_put(s, to, x, y);
  }
  return finite;
}

/* A side becomes the row of a block of means; one thread's. */
KV_DEVICE void kv_gpu_set_mean(kv_gpu_raw *pool, kv_gpu_slab *slab,
                               int32_t block, kv_cell_ref *r) {
  if (r->format == KV_MERGED) return;
  kv_gpu_leave(pool, slab, r);
  *r = kv_cell_ref{block, 0, KV_MERGED};
}

/* Joins the member lists of two entries: the list whose first id is younger is
 * appended to the other; and their weights. One thread's. */
KV_DEVICE void kv_gpu_join(kv_gpu_lane *lane, int into, int from) {
  uint32_t a = lane->id[into], b = lane->id[from];
  uint32_t tail = a < b ? lane->last[into] : lane->last[from];
  lane->joined[lane->n_joined++] = tail;
  if (a < b) {
    lane->next[tail] = b;
    lane->last[into] = lane->last[from];
  } else {
    lane->next[tail] = a;
    lane->id[into] = b;
  }
  lane->weight[into] += lane->weight[from];
}

/* Frees an entry's rows and blocks and marks it (weight 0); the next sweep
 * removes it. One thread's. */
KV_DEVICE void kv_gpu_mark(kv_gpu_lane *lane, int gone) {
  int n = lane->n;
  kv_gpu_drop_entry(lane, gone);
  if (lane->marked == 0 || gone < lane->first_marked) lane->first_marked = gone;
  lane->marked++;
  lane->weight[gone] = 0;
  if (gone != n - 1 - lane->tail) lane->holes = 1;
  while (lane->tail < n && lane->weight[n - 1 - lane->tail] == 0) lane->tail++;
}

/* kv_merge: K and V of entry `into` become the mean of both, weighted by a and
 * b (into's, from's), and entry `from` is marked. Both are live and different.
 * Indexes stay as they are until the next keep or sweep; a move needs a sweep
 * before it. */
KV_DEVICE void kv_gpu_merge(kv_gpu_at &at, kv_gpu_lane *lane, int into,
                            int from, float a, float b) {
  KV_SHARED(int32_t, block, 2);
  const kv_gpu_layer &l = *at.layer;
  kv_gpu_slab *ks = lane->k_slab, *vs = lane->v_slab;
  assert(into != from && lane->weight[into] && lane->weight[from] &&
         "merge names two live entries");
  uint32_t *w = kv_gpu_record(l, lane, KV_MERGE, 4);
  if (!w) return;
  if (kv_thread() == 0) {
    w[0] = lane->id[into];
    w[1] = lane->id[from];
    w[2] = kv_bits(a);
    w[3] = kv_bits(b);
    lane->rewritten += !kv_gpu_is_rewritten(lane, into);
    block[0] = kv_gpu_mean_block(ks, lane->k[into]);
    block[1] = kv_gpu_mean_block(vs, lane->v[into]);
  }
  __syncthreads();
  bool finite =
      kv_gpu_blend(ks[KV_MERGED], block[0], a, b, kv_gpu_key_row(l, lane, into),
                   kv_gpu_key_row(l, lane, from));
  finite &= kv_gpu_blend(vs[KV_MERGED], block[1], a, b,
                         kv_gpu_value_row(l, lane, into),
                         kv_gpu_value_row(l, lane, from));
  bool lost = kv_block_any(!finite);
  if (kv_thread() == 0) {
    if (lost) kv_gpu_fail(lane, KV_GPU_MEAN, lane->id[into]);
    kv_gpu_set_mean(&lane->k_raw, ks, block[0], &lane->k[into]);
    kv_gpu_set_mean(&lane->v_raw, vs, block[1], &lane->v[into]);
    kv_gpu_join(lane, into, from);
    kv_gpu_mark(lane, from);
    lane->dropped = 1;
  }
  __syncthreads();
  kv_gpu_note(l, lane, kv_gpu_entries{1, into, nullptr});
}

/* --- order and class ----------------------------------------------------- */

/* kv_move: moves the entry at `from` to place `to`; those between shift by one.
 * None may be marked. */
KV_DEVICE void kv_gpu_move(kv_gpu_at &at, kv_gpu_lane *lane, int from, int to) {
  const kv_gpu_layer &l = *at.layer;
  kv_gpu_entry moved;
  assert(lane->marked == 0 &&
         "a move after a merge needs a sweep between them");
  if (from == to) return;
  uint32_t *w = kv_gpu_record(l, lane, KV_MOVE, 2);
  if (!w) return;
  kv_gpu_read_entry(l, lane, from, &moved);
  if (from < to)
    kv_gpu_pull<1>(l, lane, to - from, from, nullptr);
  else
    kv_gpu_pull<-1>(l, lane, from - to, from, nullptr);
  if (kv_thread() == 0) {
    w[0] = moved.id;
    w[1] = (uint32_t)to;
    kv_gpu_write_entry(l, lane, to, &moved);
    lane->holes = 1;
  }
  __syncthreads();
}

/* kv_retier: entry[0..n) become of class `to`, below needs.classes, in their
 * places. */
KV_DEVICE void kv_gpu_retier(kv_gpu_at &at, kv_gpu_lane *lane, int n,
                             const int32_t *entry, int to) {
  if (n == 0) return;
  uint32_t *w = kv_gpu_record(*at.layer, lane, KV_RETIER, n + 1);
  if (!w) return;
  if (kv_thread() == 0) w[0] = (uint32_t)to;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    w[1 + i] = lane->id[entry[i]];
    if (lane->tier) lane->tier[entry[i]] = (uint8_t)to;
  }
  __syncthreads();
}

#endif
