/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb recode on a device: kv_gpu_recode, by the rules of
 * gpu/lane/verbs.cuh, and its steps. Many groups are coded at once, so a prompt
 * costs as many barriers as one row. Cost: O(entries * (d + d_v) / KV_BLOCK).
 */
#ifndef KV_GPU_RECODE_CUH
#define KV_GPU_RECODE_CUH

#include "gpu/lane/prepare.cuh"
#include "gpu/lane/verbs.cuh"

/* The blocks that a slab gives next, as it was when this was made. */
typedef struct kv_gpu_blocks {
  const int32_t *free;
  int n_free, used;
  int32_t first; /* number of the first one, which a leave may overwrite */
  __device__ int32_t operator[](int j) const {
    return j == 0       ? first
           : j < n_free ? free[n_free - 1 - j]
                        : used + j - n_free;
  }
} kv_gpu_blocks;

KV_DEVICE kv_gpu_blocks kv_gpu_next_blocks(const kv_gpu_slab &s) {
  int32_t first = s.n_free ? s.free[s.n_free - 1] : s.used;
  return {s.free, s.n_free, s.used, first};
}

/* The block: kv_gpu_take_block of the next `blocks` blocks, each for so many
 * members. Ends without a barrier. */
KV_DEVICE void kv_gpu_take_blocks(kv_gpu_slab *s, const kv_gpu_blocks &next,
                                  int blocks, int members) {
  int fresh = s->n_fresh,
      from_free = blocks < next.n_free ? blocks : next.n_free;
  assert(next.used + blocks - from_free <= s->cap &&
         "a slab has room for every token");
  __syncthreads();
  for (int j = kv_thread(); j < blocks; j += KV_BLOCK) {
    int32_t b = next[j];
    if (fresh + j < s->cap) s->fresh[fresh + j] = b;
    s->members[b] = s->live[b] = (uint16_t)members;
  }
  if (kv_thread() == 0) {
    s->n_fresh = fresh + blocks;
    s->n_free = next.n_free - from_free;
    s->used = next.used + blocks - from_free;
    s->held += blocks * members;
    kv_gpu_count_blocks(s, members, blocks);
  }
}

/* One side of entries that are coded in groups of `group`: group j is
 * entry[j * group ..]. An encoder calls it as (j, m, x), by any thread: element
 * x of row m of group j. */
typedef struct kv_gpu_side {
  const kv_gpu_layer *layer;
  kv_gpu_lane *lane;
  kv_gpu_entries entry;
  int group;
  bool key; /* K, else V */
  kv_gpu_slab *slab;
  kv_gpu_blocks block;
  __device__ int operator()(int j, int m) const { return entry[j * group + m]; }
  /* The prepared row, which is read later, too; the slab has such rows. */
  __device__ float *prepared(int j, int m) const {
    int64_t row = (int64_t)block[j] * slab->most + m;
    return slab->restored + row * slab->width;
  }
  __device__ float operator()(int j, int m, int x) const {
    int i = (*this)(j, m);
    if (slab->restored) return prepared(j, m)[x];
    return key ? kv_gpu_key_back(*layer, lane, slab->pre_rope, i, x)
               : kv_gpu_value(*layer, lane, i, x);
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

/* The block: the rows as their slab wants them, before (undo: after) they are
 * coded. */
KV_DEVICE void kv_gpu_prepare_side(const kv_gpu_side &side, bool undo) {
  const kv_gpu_slab &s = *side.slab;
  auto row = [&](int r) {
    return side.prepared(r / side.group, r % side.group);
  };
  for (int at = kv_thread(); at < side.entry.n * s.width; at += KV_BLOCK) {
    int r = at / s.width, x = at % s.width;
    int j = r / side.group, m = r % side.group;
    row(r)[x] = undo ? kv_gpu_decode(s, kv_gpu_block_at(s, side.block[j]), m, x)
                : side.key
                    ? kv_gpu_key(*side.layer, side.lane, side(j, m), x)
                    : kv_gpu_value(*side.layer, side.lane, side(j, m), x);
  }
  auto turn = [&](int r) {
    return kv_gpu_turn_of(*side.layer, side.lane->id[side.entry[r]]);
  };
  kv_gpu_prepare(s, side.entry.n, undo, row, turn);
}

/* Codes one side of the groups; KV_SAME: nothing. Returns the first of the
 * entries whose group has a scale that does not fit its type, INT32_MAX: none.
 * A side that is coded or merged leaves its block after the new one was taken,
 * so groups with such sides come one by one. Contains the encoders of all
 * formats, once in a file. */
static KV_APART __device__ int
kv_gpu_recode_side(const kv_gpu_layer &l, kv_gpu_lane *lane,
                   const kv_gpu_entries &e, int group, int format, bool key) {
  if (format == KV_SAME) return INT32_MAX;
  kv_gpu_slab *slab = key ? lane->k_slab : lane->v_slab, *s = &slab[format];
  kv_gpu_raw *pool = key ? &lane->k_raw : &lane->v_raw;
  kv_cell_ref *ref = key ? lane->k : lane->v;
  int groups = e.n / group;
  bool old = false;
  assert(s->cap > 0 && "needs.coding is for this side");
  for (int i = kv_thread(); i < e.n; i += KV_BLOCK)
    old |= ref[e[i]].format != KV_RAW;
  bool raw = !kv_block_any(old);
  assert((raw || groups <= 1) && "several groups were never rewritten");
  kv_gpu_side side = {&l, lane, e, group, key, s, kv_gpu_next_blocks(*s)};
  kv_gpu_take_blocks(s, side.block, groups, group);
  for (int j = 0; s->in.pages && kv_thread() == 0 && j < groups; j++)
    kv_gpu_check_number(lane, *s, side.block[j], side(j, 0));
  if (s->restored) kv_gpu_prepare_side(side, false);
  int wrong = kv_gpu_encode(*s, groups, group, side, [&](int j) {
    return kv_gpu_block_at(*s, side.block[j]);
  });
  if (s->restored) kv_gpu_prepare_side(side, true);
  if (raw) {
    kv_gpu_free_rows(pool, ref, e);
  } else {
    for (int i = 0; kv_thread() == 0 && i < e.n; i++)
      kv_gpu_leave(pool, slab, &ref[e[i]]);
    __syncthreads();
  }
  for (int i = kv_thread(); i < e.n; i += KV_BLOCK)
    ref[e[i]] = kv_cell_ref{side.block[i / group], (uint16_t)(i % group),
                            (uint16_t)format};
  __syncthreads();
  return wrong < groups ? side(wrong, 0) : INT32_MAX;
}

/* The block: records of entries that are coded in groups, without their
 * formats. NULL: as kv_gpu_record. */
KV_DEVICE uint32_t *kv_gpu_recode_records(const kv_gpu_layer &l,
                                          kv_gpu_lane *lane,
                                          const kv_gpu_entries &e, int group) {
  int before = lane->rewritten, fresh = 0;
  if (e.n == 0) return nullptr;
  uint32_t *w = kv_gpu_record(l, lane, KV_RECODE, 2 + group, e.n / group);
  if (!w) return nullptr;
  for (int i = kv_thread(); i < e.n; i += KV_BLOCK) {
    w[i / group * (KV_GPU_HEAD + 2 + group) + 2 + i % group] = lane->id[e[i]];
    fresh += !kv_gpu_is_rewritten(lane, e[i]);
  }
  fresh = kv_block_sum(fresh);
  if (kv_thread() == 0) lane->rewritten = before + fresh;
  return w;
}

/* The block: what follows a recode; wrong: of kv_gpu_recode_side. */
KV_DEVICE void kv_gpu_recoded(const kv_gpu_layer &l, kv_gpu_lane *lane,
                              const kv_gpu_entries &e, int wrong) {
  if (kv_thread() == 0 && wrong < lane->n)
    kv_gpu_fail(lane, KV_GPU_SCALE, lane->id[wrong]);
  kv_gpu_note(l, lane, e);
}

/* kv_recode of each `group` entries, which divides their number: they are coded
 * together in k_format and v_format, as kv_gpu_coded names them; KV_SAME: the
 * side is unchanged. If they are several groups, entries ascend and a side that
 * is coded was never rewritten. */
KV_DEVICE void kv_gpu_recode(kv_gpu_at &at, kv_gpu_lane *lane,
                             const kv_gpu_entries &e, int group, int k_format,
                             int v_format) {
  const kv_gpu_layer &l = *at.layer;
  uint32_t *w = kv_gpu_recode_records(l, lane, e, group);
  if (!w) return;
  for (int j = kv_thread(); j < e.n / group; j += KV_BLOCK) {
    w[j * (KV_GPU_HEAD + 2 + group)] = (uint32_t)k_format;
    w[j * (KV_GPU_HEAD + 2 + group) + 1] = (uint32_t)v_format;
  }
  int k = kv_gpu_recode_side(l, lane, e, group, k_format, true);
  int v = kv_gpu_recode_side(l, lane, e, group, v_format, false);
  kv_gpu_recoded(l, lane, e, k < v ? k : v);
}

/* --- many tokens at once -------------------------------------------------- */

/* kv_recode_token of ref/lane/lane.h on a device, of many tokens at once, for
 * formats whose blocks are spread over all lanes of the layer (format delta):
 * kernels first write the blocks' contents into the slabs, and then
 * kv_gpu_recode_tokens assigns them to the lane's entries. */

/* A block of such a slab, by any thread: first the fp32 row [width] that the
 * token stands for in this lane; then, of K, the ids of the tokens that it
 * names; then this slab's part of the stored bytes (kv_gpu_token_part, by how
 * many ids a block has). */
KV_DEVICE char *kv_gpu_token_block(const kv_gpu_slab &s, int32_t block) {
  return s.data + (size_t)block * s.size;
}
KV_DEVICE int32_t *kv_gpu_token_named(const kv_gpu_slab &s, int32_t block) {
  return (int32_t *)(kv_gpu_token_block(s, block) + (size_t)s.width * 4);
}
KV_DEVICE char *kv_gpu_token_part(const kv_gpu_slab &s, int32_t block,
                                  int named) {
  return (char *)(kv_gpu_token_named(s, block) + (s.part % 2 ? 0 : named));
}

/* Entries entry[0..n) become coded, one record each in this order: entry j,
 * both sides, in format[j] (as kv_gpu_coded names it) and block[j], which must
 * be the next that its slabs take. All threads of the lane's block, like a
 * verb; if the records do not fit in the journal, the lane fails
 * (KV_GPU_JOURNAL) and nothing is done. */
KV_DEVICE void kv_gpu_recode_tokens(kv_gpu_at &at, kv_gpu_lane *lane, int n,
                                    const int32_t *entry, const int32_t *format,
                                    const int32_t *block) {
  const kv_gpu_layer &l = *at.layer;
  uint32_t *w = kv_gpu_record(l, lane, KV_RECODE, 3, n);
  if (!w) return;
  for (int j = kv_thread(); j < n; j += KV_BLOCK) {
    uint32_t *own = w + j * (KV_GPU_HEAD + 3);
    own[0] = own[1] = (uint32_t)format[j];
    own[2] = lane->id[entry[j]];
  }
  for (int j = 0; kv_thread() == 0 && j < n; j++) {
    int i = entry[j], f = format[j];
    lane->rewritten += !kv_gpu_is_rewritten(lane, i);
    int32_t k = kv_gpu_take_block(&lane->k_slab[f], 1);
    int32_t v = kv_gpu_take_block(&lane->v_slab[f], 1);
    assert(k == block[j] && v == k && "blocks as they were numbered");
    kv_gpu_leave(&lane->k_raw, lane->k_slab, &lane->k[i]);
    kv_gpu_leave(&lane->v_raw, lane->v_slab, &lane->v[i]);
    lane->k[i] = kv_cell_ref{k, 0, (uint16_t)f};
    lane->v[i] = kv_cell_ref{v, 0, (uint16_t)f};
  }
  __syncthreads();
  kv_gpu_note(l, lane, kv_gpu_entries{n, 0, entry});
}

#endif
