/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs on a device, by which alone a hook changes what its lane stores:
 * kv_gpu_keep, _keep_mask, _drop_one and _sweep (gpu/lane/keep.cuh), _merge,
 * _recode, _move and _retier, and kv_gpu_recode_tokens (verbs_token.cuh). Each
 * does what the verb of that name does in ref/lane/lane.h (_drop_one what
 * kv_keep does), equal record for record and bit for bit.
 *
 * All threads of the lane's block call a verb together with the same arguments;
 * none may diverge around it. A list may be in global memory, or in each
 * thread's own if all hold the same; it stays the caller's. Each verb begins
 * and ends so that every thread reads what the others wrote, and takes no
 * shared memory from its caller. Broken rules are asserted. What fails is left
 * in lane->fault (a mean or a scale that is not finite, a full journal, a block
 * without a page), and the hook goes on.
 *
 * Cost: of keep and sweep as gpu/lane/keep.cuh says; of a move O(entries that
 * shift / KV_BLOCK), of a retier O(entries listed / KV_BLOCK), of a recode that
 * times d + d_v. A merge is O((d + d_v) / KV_BLOCK), because the entry that
 * goes is only marked, and swept when the hook returns.
 */
#ifndef KV_GPU_VERBS_CUH
#define KV_GPU_VERBS_CUH

#include "gpu/lane/keep.cuh"

/* --- merge --------------------------------------------------------------- */

/* The block for the mean of one side: the entry's own, or a new one. One
 * thread's. */
KV_DEVICE int32_t kv_gpu_mean_block(kv_gpu_slab *slab, const kv_cell_ref &r) {
  if (r.format != KV_MERGED) return kv_gpu_take_block(&slab[KV_MERGED], 1);
  kv_gpu_touch(&slab[KV_MERGED], r.block);
  return r.block;
}

/* Writes y as element x of a merged row, rounded to the slab's type; false: it
 * is not finite then. One thread's. */
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
  kv_gpu_note(l, lane, 1, &into);
}

/* --- recode -------------------------------------------------------------- */

/* Rows of one side of listed entries, as an encoder takes them: called as (m,
 * x) by a single thread, it is element x of entry entry[m]'s row. */
typedef struct kv_gpu_side {
  const kv_gpu_layer *layer;
  const kv_gpu_lane *lane;
  const int32_t *entry;
  bool key;     /* K, else V */
  int pre_rope; /* a kv_gpu_turned: keys are rotated back, as the slab that they
                   are coded for wants them */
  __device__ float operator()(int m, int x) const {
    if (!key) return kv_gpu_value(*layer, lane, entry[m], x);
    const float *turn =
        pre_rope ? kv_gpu_turn_of(*layer, lane->id[entry[m]]) : nullptr;
    return turn ? back(turn, entry[m], x)
                : kv_gpu_key(*layer, lane, entry[m], x);
  }
  /* Element x of entry i's key, rotated back by turn. */
  __device__ float back(const float *turn, int i, int x) const {
    kv_gpu_pair p = kv_gpu_pair_of(pre_rope, layer->shape.d, x);
    return kv_gpu_back(p, turn, x, kv_gpu_key(*layer, lane, i, p.first),
                       kv_gpu_key(*layer, lane, i, p.second));
  }
} kv_gpu_side;

/* Fails the lane (KV_GPU_NO_PAGE) if block b of a slab in pages, of entry i,
 * has no page, or V's number is not K's. One thread's. */
KV_DEVICE void kv_gpu_check_number(kv_gpu_lane *lane, const kv_gpu_slab &s,
                                   int32_t b, int i) {
  const kv_gpu_in_pages &in = s.in;
  if (!in.pages) return;
  bool other = in.side == KV_SIDE_V && lane->k[i].block != b;
  if (other || !kv_paged_has(*in.pages, in.lane, in.tier, b))
    kv_gpu_fail(lane, KV_GPU_NO_PAGE, lane->id[i]);
}

/* kv_gpu_recode of one side, K or V, without its record: the encoders of all
 * formats, once in a file. */
static KV_APART __device__ void kv_gpu_recode_side(const kv_gpu_layer &l,
                                                   kv_gpu_lane *lane, int n,
                                                   const int32_t *entry,
                                                   int format, bool key) {
  KV_SHARED(int32_t, block, 1);
  kv_gpu_slab *slab = key ? lane->k_slab : lane->v_slab, *s = &slab[format];
  kv_gpu_raw *pool = key ? &lane->k_raw : &lane->v_raw;
  kv_cell_ref *ref = key ? lane->k : lane->v;
  bool old = false;
  assert(s->cap > 0 && "needs.coding is for this side");
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    old |= ref[entry[i]].format != KV_RAW;
  bool all_raw = !kv_block_any(old);
  if (kv_thread() == 0) {
    block[0] = kv_gpu_take_block(s, n);
    kv_gpu_check_number(lane, *s, block[0], entry[0]);
  }
  __syncthreads();
  int32_t b = block[0];
  kv_gpu_side rows = {&l, lane, entry, key, s->pre_rope};
  bool fits = kv_gpu_encode(*s, n, rows, kv_gpu_block_at(*s, b));
  if (kv_thread() == 0) {
    if (!fits) kv_gpu_fail(lane, KV_GPU_SCALE, lane->id[entry[0]]);
    for (int i = 0; !all_raw && i < n; i++)
      kv_gpu_leave(pool, slab, &ref[entry[i]]);
  }
  __syncthreads();
  if (all_raw) kv_gpu_free_rows(pool, ref, n, entry);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    ref[entry[i]] = kv_cell_ref{b, (uint16_t)i, (uint16_t)format};
  __syncthreads();
}

/* kv_recode: entry[0..n) are coded together in k_format and v_format, which
 * kv_gpu_coded names; KV_SAME leaves a side as it is. */
KV_DEVICE void kv_gpu_recode(kv_gpu_at &at, kv_gpu_lane *lane, int n,
                             const int32_t *entry, int k_format, int v_format) {
  const kv_gpu_layer &l = *at.layer;
  int before = lane->rewritten, fresh = 0;
  uint32_t *w = n ? kv_gpu_record(l, lane, KV_RECODE, n + 2) : nullptr;
  if (!w) return;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    w[2 + i] = lane->id[entry[i]];
    fresh += !kv_gpu_is_rewritten(lane, entry[i]);
  }
  fresh = kv_block_sum(fresh);
  if (kv_thread() == 0) {
    w[0] = (uint32_t)k_format;
    w[1] = (uint32_t)v_format;
    lane->rewritten = before + fresh;
  }
  if (k_format != KV_SAME)
    kv_gpu_recode_side(l, lane, n, entry, k_format, true);
  if (v_format != KV_SAME)
    kv_gpu_recode_side(l, lane, n, entry, v_format, false);
  kv_gpu_note(l, lane, n, entry);
}

/* --- order and class ----------------------------------------------------- */

/* kv_move: the entry at `from` goes to place `to`; those between shift by one.
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
