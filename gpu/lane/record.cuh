/* SPDX-License-Identifier: Apache-2.0
 *
 * What every verb (gpu/lane/verbs.cuh) leaves behind: its record (words as in
 * ref/lane/journal.h), the rows that it rewrote, the slab blocks that it took
 * or freed, and lane->fault, the first failure, which stays. Verbs call these
 * functions; kv_gpu_fail also who finds before a verb that it cannot be done.
 *
 * Functions marked "The block" are called by all threads of the lane's block
 * together with the same arguments, behind a barrier, and end with one. The
 * others are called by one thread between two barriers, the only one that then
 * reads and writes the lane's scalars; but kv_gpu_is_rewritten is any thread's.
 *
 * The last block freed is the first to be taken, as in ref/lane/verbs.c, so
 * that block numbers equal the reference's. Numbers of pool rows are in no
 * digest.
 */
#ifndef KV_GPU_RECORD_CUH
#define KV_GPU_RECORD_CUH

#include "gpu/lane/entry.cuh"

/* Notes that the lane cannot go on, unless it was noted before; id: the token
 * that kv_gpu_fault asks for, else 0. The lane goes on to the end of the step,
 * with numbers that mean nothing. */
KV_DEVICE void kv_gpu_fail(kv_gpu_lane *lane, kv_gpu_fault why, uint32_t id) {
  if (lane->fault != KV_GPU_FINE) return;
  lane->fault = why;
  lane->fault_at = (int)id;
}

/* The block: opens a record of a verb (KV_KEEP, KV_MERGE, ..): writes its head,
 * five words, and returns where its `count` other words are to be written. NULL
 * for all: the journal is full (KV_GPU_JOURNAL), and the verb must do nothing.
 */
KV_DEVICE uint32_t *kv_gpu_record(const kv_gpu_layer &l, kv_gpu_lane *lane,
                                  kv_record kind, int count) {
  int n = lane->n_verbs;
  bool fits = count <= lane->cap_verbs - 5 - n;
  uint32_t *w = lane->verbs + n;
  __syncthreads();
  if (kv_thread() == 0 && fits) {
    w[0] = (uint32_t)kind;
    w[1] = (uint32_t)l.layer;
    w[2] = (uint32_t)lane->step;
    w[3] = (uint32_t)lane->lane;
    w[4] = (uint32_t)count;
    lane->n_verbs = n + 5 + count;
  } else if (kv_thread() == 0) {
    kv_gpu_fail(lane, KV_GPU_JOURNAL, 0);
  }
  __syncthreads();
  return fits ? w + 5 : nullptr;
}

/* The block: appends K and V of entry[0..n), as attention reads them now, to
 * the lane's log, for the host to hash. What does not fit is KV_GPU_JOURNAL. */
KV_DEVICE void kv_gpu_note(const kv_gpu_layer &l, kv_gpu_lane *lane, int n,
                           const int32_t *entry) {
  int d = l.shape.d, wide = d + l.shape.d_v, start = lane->n_log;
  int rows = n < lane->cap_log - start ? n : lane->cap_log - start;
  for (int r = 0; r < rows; r++) {
    float *to = lane->log + (size_t)(start + r) * (size_t)wide;
    kv_gpu_row k = kv_gpu_key_row(l, lane, entry[r]);
    kv_gpu_row v = kv_gpu_value_row(l, lane, entry[r]);
    for (int x = kv_thread(); x < wide; x += KV_BLOCK)
      to[x] = x < d ? kv_gpu_element(k, x) : kv_gpu_element(v, x - d);
    if (kv_thread() == 0) lane->log_id[start + r] = lane->id[entry[r]];
  }
  __syncthreads();
  if (kv_thread() == 0) {
    lane->n_log = start + rows;
    if (rows < n) kv_gpu_fail(lane, KV_GPU_JOURNAL, 0);
  }
  __syncthreads();
}

/* --- blocks of slabs, one thread ----------------------------------------- */

/* Adds (sign 1) or subtracts (-1) the bytes of a block with this many members.
 */
KV_DEVICE void kv_gpu_count_block(kv_gpu_slab *s, int members, int sign) {
  kv_gpu_coded_size size = kv_gpu_block_size(*s, members);
  s->codes += sign * size.codes;
  s->metadata += sign * size.metadata;
}

/* Notes that block b was written, so that the report has it. */
KV_DEVICE void kv_gpu_touch(kv_gpu_slab *s, int32_t b) {
  if (s->n_fresh < s->cap) s->fresh[s->n_fresh] = b;
  s->n_fresh++;
}

/* Takes a block for so many rows, notes it, and returns its number. Asserts
 * that there is one: slabs have room for every token. */
KV_DEVICE int32_t kv_gpu_take_block(kv_gpu_slab *s, int members) {
  int32_t b = s->n_free ? s->free[--s->n_free] : s->used++;
  assert(b < s->cap && "a slab has room for every token");
  kv_gpu_touch(s, b);
  s->members[b] = s->live[b] = (uint16_t)members;
  s->held += members;
  kv_gpu_count_block(s, members, 1);
  return b;
}

/* One side of an entry, *r, gives up what it holds: its row of the pool, or its
 * place in a block of slab[r->format], which the last member frees. The caller
 * then drops the entry or gives the side something else. */
KV_DEVICE void kv_gpu_leave(kv_gpu_raw *pool, kv_gpu_slab *slab,
                            kv_cell_ref *r) {
  if (r->format == KV_RAW) {
    pool->free[pool->n_free++] = r->block;
    return;
  }
  kv_gpu_slab *s = &slab[r->format];
  s->held--;
  if (--s->live[r->block] == 0) {
    kv_gpu_count_block(s, s->members[r->block], -1);
    s->free[s->n_free++] = r->block;
  }
  r->format = KV_RAW;
}

/* True if a side of entry i is merged or coded. */
KV_DEVICE bool kv_gpu_is_rewritten(const kv_gpu_lane *lane, int i) {
  return lane->k[i].format != KV_RAW || lane->v[i].format != KV_RAW;
}

/* Both sides of entry i give up what they hold. */
KV_DEVICE void kv_gpu_drop_entry(kv_gpu_lane *lane, int i) {
  lane->rewritten -= kv_gpu_is_rewritten(lane, i);
  kv_gpu_leave(&lane->k_raw, lane->k_slab, &lane->k[i]);
  kv_gpu_leave(&lane->v_raw, lane->v_slab, &lane->v[i]);
}

/* The block: frees the pool rows of one side of entry[0..n), which are all
 * KV_RAW. */
KV_DEVICE void kv_gpu_free_rows(kv_gpu_raw *pool, const kv_cell_ref *side,
                                int n, const int32_t *entry) {
  int n_free = pool->n_free;
  __syncthreads();
  for (int j = kv_thread(); j < n; j += KV_BLOCK)
    pool->free[n_free + j] = side[entry[j]].block;
  if (kv_thread() == 0) pool->n_free = n_free + n;
  __syncthreads();
}

#endif
