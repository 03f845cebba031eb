/* SPDX-License-Identifier: Apache-2.0
 *
 * What every verb leaves behind: its record (words as ref/journal.h has
 * them), the rows it rewrote, the blocks of slabs it took or let go, and the
 * first reason why the lane cannot go on. Functions of the block say so;
 * the others are called by one thread, which owns the lane's scalars, between
 * two barriers.
 *
 * Blocks come and go in the order that ref/verbs.c has: the last that was let
 * go is the first to be taken, so block numbers are the reference's.
 */
#ifndef KV_GPU_RECORD_CUH
#define KV_GPU_RECORD_CUH

#include "gpu/entry.cuh"

KV_DEVICE void kv_gpu_fail(kv_gpu_lane *lane, kv_gpu_fault why, uint32_t id) {
  if (lane->fault != KV_GPU_FINE) return;
  lane->fault = why;
  lane->fault_at = (int)id;
}

/* The block: opens a record of `count` words; NULL where the journal
 * is full, and the verb does not happen. */
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

/* The block: rows of entry[0..n) as attention reads them now, in the log. */
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

/* Adds what a block of so many members counts as, sign times. */
KV_DEVICE void kv_gpu_count_block(kv_gpu_slab *s, int members, int sign) {
  int64_t codes = (int64_t)s->width * 4, metadata = 0;
  if (s->kind != KV_GPU_ROWS) {
    int rows = s->kind == KV_GPU_TOKEN ? 1 : members;
    codes = (int64_t)rows * kv_gpu_plane(*s);
    metadata = (int64_t)kv_gpu_ranges(*s) * 4;
  }
  s->codes += sign * codes;
  s->metadata += sign * metadata;
}

/* The host is to see what block b holds after this step. */
KV_DEVICE void kv_gpu_touch(kv_gpu_slab *s, int32_t b) {
  if (s->n_fresh < s->cap) s->fresh[s->n_fresh] = b;
  s->n_fresh++;
}

KV_DEVICE int32_t kv_gpu_take_block(kv_gpu_slab *s, int members) {
  int32_t b = s->n_free ? s->free[--s->n_free] : s->used++;
  kv_gpu_touch(s, b);
  s->members[b] = s->live[b] = (uint16_t)members;
  s->held += members;
  kv_gpu_count_block(s, members, 1);
  return b;
}

/* The entry's side leaves its block and is raw; the last one frees it. */
KV_DEVICE void kv_gpu_leave_block(kv_gpu_slab *slab, kv_cell_ref *r) {
  if (r->format == KV_RAW) return;
  kv_gpu_slab *s = &slab[r->format];
  s->held--;
  if (--s->live[r->block] == 0) {
    kv_gpu_count_block(s, s->members[r->block], -1);
    s->free[s->n_free++] = r->block;
  }
  r->format = KV_RAW;
}

KV_DEVICE bool kv_gpu_is_rewritten(const kv_gpu_lane *lane, int i) {
  return lane->k &&
         (lane->k[i].format != KV_RAW || lane->v[i].format != KV_RAW);
}

/* Entry i gives up both sides. */
KV_DEVICE void kv_gpu_drop_entry(kv_gpu_lane *lane, int i) {
  if (!lane->k) return;
  lane->rewritten -= kv_gpu_is_rewritten(lane, i);
  kv_gpu_leave_block(lane->k_slab, &lane->k[i]);
  kv_gpu_leave_block(lane->v_slab, &lane->v[i]);
}

#endif
