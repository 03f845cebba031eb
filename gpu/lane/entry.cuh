/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads K and V of an entry as attention does, in any storage: a row of the
 * lane's pool, a merged row, or codes. Applies RoPE and re-indexing to keys.
 * Every function is called by any single thread, for itself, has no barrier and
 * cannot fail. l, lane: the layer, a lane of it; i < lane->n a live entry.
 *
 * To read many elements, look the row up once (kv_gpu_key_row) and take
 * elements from it (kv_gpu_element); kv_gpu_key does both for one. A row stays
 * valid until a verb changes the lane. Slabs are aligned to 256 bytes, pages of
 * a pool to 128.
 */
#ifndef KV_GPU_ENTRY_CUH
#define KV_GPU_ENTRY_CUH

#include "gpu/block/half.h"
#include "gpu/lane/paged.cuh"

/* Where a row of K or V is and how it is read. 32 bytes, because kernels share
 * 128 of them. */
typedef struct kv_gpu_row {
  const char *at;          /* its elements, or its block's metadata */
  const kv_gpu_slab *slab; /* NULL: it is not coded */
  const float *turn; /* [d] rotation to apply to a key that was coded before
                        RoPE; NULL: none */
  int32_t codes;     /* of a coded row: bytes from `at` to its block's codes */
  uint16_t member;   /* .. and its number among the rows of that block */
  uint16_t type;     /* of one that is not coded: a kv_dtype */
} kv_gpu_row;

/* The row of elements of `type` at `at`; NULL: no row. */
KV_DEVICE kv_gpu_row kv_gpu_plain_row(const char *at, kv_dtype type) {
  return {at, nullptr, nullptr, 0, 0, (uint16_t)type};
}

/* Two elements of a key that RoPE rotates together, and which pair of the d/2
 * they are. */
typedef struct kv_gpu_pair {
  int first, second, number;
} kv_gpu_pair;

/* The pair that element x < d belongs to; turned: KV_GPU_INTERLEAVED, else
 * halves. */
KV_DEVICE kv_gpu_pair kv_gpu_pair_of(int turned, int d, int x) {
  int half = d / 2;
  if (turned == KV_GPU_INTERLEAVED) return kv_gpu_pair{x & ~1, x | 1, x / 2};
  int i = x % half;
  return kv_gpu_pair{i, i + half, i};
}

/* How RoPE pairs elements of the layer's keys. */
KV_DEVICE int kv_gpu_turned_of(const kv_gpu_layer &l) {
  return l.interleaved ? KV_GPU_INTERLEAVED : KV_GPU_HALVES;
}

/* The value of h in a type of 2 bytes, KV_F16 or KV_BF16. */
KV_DEVICE float kv_gpu_widen(kv_dtype type, uint16_t h) {
  return type == KV_F16 ? kv_half(h) : kv_from_bf16(h);
}

/* x[0], x[1]: both such numbers of a word, the lower one first. */
KV_DEVICE void kv_gpu_widen_two(kv_dtype type, uint32_t w, float *x) {
  if (type == KV_F16) {
    kv_two_halves(w, x);
    return;
  }
  x[0] = kv_float(w << 16);
  x[1] = kv_float(w & 0xffff0000u);
}

/* The block of a coded row. */
KV_DEVICE kv_gpu_block kv_gpu_row_block(const kv_gpu_row &r) {
  return {(char *)r.at, (char *)r.at + r.codes};
}

/* Element x of a pair whose elements are (x1, x2), rotated to a position
 * (forth), or of (y1, y2) rotated back from it. x is p.first or p.second; turn:
 * [d] sine and cosine of each pair at that position. */
KV_DEVICE float kv_gpu_forth(const kv_gpu_pair &p, const float *turn, int x,
                             float x1, float x2) {
  float s = turn[2 * p.number], c = turn[2 * p.number + 1];
  return x == p.first ? kv_fma(-x2, s, kv_mul(x1, c))
                      : kv_fma(x2, c, kv_mul(x1, s));
}
KV_DEVICE float kv_gpu_back(const kv_gpu_pair &p, const float *turn, int x,
                            float y1, float y2) {
  float s = turn[2 * p.number], c = turn[2 * p.number + 1];
  return x == p.first ? kv_fma(y2, s, kv_mul(y1, c))
                      : kv_fma(-y1, s, kv_mul(y2, c));
}

/* How a key of a re-indexed lane is rotated from its token's position to its
 * place: back, then forth. back NULL: it is already there. */
typedef struct kv_gpu_turns {
  const float *back, *forth; /* [d] each */
} kv_gpu_turns;

/* For token t at place i; only if l.needs.reindex. */
KV_DEVICE kv_gpu_turns kv_gpu_turns_of(const kv_gpu_layer &l, uint32_t t,
                                       int i) {
  const int32_t *p = l.position;
  if (p ? p[t] == p[0] + i : t == (uint32_t)i) return {nullptr, nullptr};
  size_t d = (size_t)l.shape.d;
  return {l.back + t * d, l.forth + (size_t)i * d};
}

/* Element x of the pair (y1, y2) rotated so; t.back must not be NULL. */
KV_DEVICE float kv_gpu_placed(const kv_gpu_pair &p, const kv_gpu_turns &t,
                              int x, float y1, float y2) {
  float x1 = kv_gpu_back(p, t.back, p.first, y1, y2);
  float x2 = kv_gpu_back(p, t.back, p.second, y1, y2);
  return kv_gpu_forth(p, t.forth, x, x1, x2);
}

/* Element x of a key that was coded before its rotation (r.turn), rotated. */
KV_DEVICE float kv_gpu_turn_forth(const kv_gpu_row &r, int x) {
  kv_gpu_pair p = kv_gpu_pair_of(r.slab->pre_rope, r.slab->width, x);
  float x1 = kv_gpu_decode(*r.slab, kv_gpu_row_block(r), r.member, p.first);
  float x2 = kv_gpu_decode(*r.slab, kv_gpu_row_block(r), r.member, p.second);
  return kv_gpu_forth(p, r.turn, x, x1, x2);
}

/* Element x of a row in any storage. */
KV_DEVICE float kv_gpu_element(const kv_gpu_row &r, int x) {
  kv_one_by_one();
  if (r.turn) return kv_gpu_turn_forth(r, x);
  if (r.slab) return kv_gpu_decode(*r.slab, kv_gpu_row_block(r), r.member, x);
  if (r.type == KV_F32) return ((const float *)r.at)[x];
  return kv_gpu_widen((kv_dtype)r.type, ((const uint16_t *)r.at)[x]);
}

/* The bytes of a row of a pool. */
KV_DEVICE char *kv_gpu_raw_at(const kv_gpu_raw &pool, int32_t row) {
  return pool.page[row / KV_GPU_PAGE] + (size_t)(row % KV_GPU_PAGE) * pool.size;
}

/* The row of a side that is KV_RAW, by its reference. */
KV_DEVICE kv_gpu_row kv_gpu_raw_row(const kv_gpu_layer &l,
                                    const kv_gpu_raw &pool,
                                    const kv_cell_ref &ref) {
  return kv_gpu_plain_row(kv_gpu_raw_at(pool, ref.block), l.shape.dtype);
}

/* Block b of a slab, in its data or in pages. */
KV_DEVICE kv_gpu_block kv_gpu_block_at(const kv_gpu_slab &s, int32_t b) {
  const kv_gpu_in_pages &in = s.in;
  if (in.pages) return kv_paged_block(*in.pages, in.lane, in.tier, b, in.side);
  char *at = s.data + (size_t)b * s.size;
  return {at, at + s.metadata_size};
}

/* The row of a side that is merged or coded; slab: the lane's k_slab or v_slab.
 * A key's rotation is not set (kv_gpu_key_row does). */
KV_DEVICE kv_gpu_row kv_gpu_slab_row(const kv_gpu_slab *slab,
                                     const kv_cell_ref &ref) {
  const kv_gpu_slab *s = &slab[ref.format];
  if (s->restored) {
    int64_t row = (int64_t)ref.block * s->most + ref.member;
    return kv_gpu_plain_row((const char *)(s->restored + row * s->width),
                            KV_F32);
  }
  kv_gpu_block block = kv_gpu_block_at(*s, ref.block);
  bool coded = s->format != KV_GPU_ROWS;
  kv_gpu_row r =
      kv_gpu_plain_row(block.metadata, coded ? KV_F32 : (kv_dtype)s->type);
  if (!coded) return r;
  r.slab = s;
  r.codes = (int32_t)(block.codes - block.metadata);
  r.member = ref.member;
  return r;
}

/* [d] sines and cosines of token t's position, if needs.rope; NULL at position
 * 0, which needs no rotation. */
KV_DEVICE const float *kv_gpu_turn_of(const kv_gpu_layer &l, uint32_t t) {
  if ((l.position ? l.position[t] : (int32_t)t) == 0) return nullptr;
  return l.turns + (size_t)t * (size_t)l.shape.d;
}

/* The key of entry i, and its value. */
KV_DEVICE kv_gpu_row kv_gpu_key_row(const kv_gpu_layer &l,
                                    const kv_gpu_lane *lane, int i) {
  if (lane->k[i].format == KV_RAW)
    return kv_gpu_raw_row(l, lane->k_raw, lane->k[i]);
  kv_gpu_row r = kv_gpu_slab_row(lane->k_slab, lane->k[i]);
  if (r.slab && r.slab->pre_rope) r.turn = kv_gpu_turn_of(l, lane->id[i]);
  return r;
}

KV_DEVICE kv_gpu_row kv_gpu_value_row(const kv_gpu_layer &l,
                                      const kv_gpu_lane *lane, int i) {
  if (lane->v[i].format == KV_RAW)
    return kv_gpu_raw_row(l, lane->v_raw, lane->v[i]);
  return kv_gpu_slab_row(lane->v_slab, lane->v[i]);
}

/* True if entry i is in the view (l.mask) of any head of the lane. */
KV_DEVICE bool kv_gpu_seen(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                           int i) {
  for (int h = 0; h < lane->queries; h++)
    if (l.mask[(size_t)(lane->first_head + h) * (size_t)l.stride + (size_t)i])
      return true;
  return false;
}

/* How many entries of the lane query row r of the tile sees. They are its first
 * ones: entries of tokens after the row's own are last. */
KV_DEVICE int kv_gpu_visible(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                             int r) {
  int entered = l.clock->first + l.clock->count;
  return lane->n - (entered - (l.clock->row + r + 1));
}

/* True if the value of entry i is coded (merged does not count). */
KV_DEVICE bool kv_gpu_coded_value(const kv_gpu_lane *lane, int i) {
  return lane->v[i].format >= KV_CODED;
}

/* [d_v] the decoded value of entry i, which materialise writes and attention
 * reads: for coded entries in view, if l.materialised is not NULL. */
KV_DEVICE float *kv_gpu_materialised_row(const kv_gpu_layer &l,
                                         const kv_gpu_lane *lane, int i) {
  size_t at = (size_t)lane->lane * (size_t)l.shape.n_tokens + (size_t)i;
  return l.materialised + at * (size_t)l.shape.d_v;
}

/* The value of entry i as attention reads it: already decoded, if materialised.
 */
KV_DEVICE kv_gpu_row kv_gpu_attended_row(const kv_gpu_layer &l,
                                         const kv_gpu_lane *lane, int i) {
  if (!l.materialised || !kv_gpu_coded_value(lane, i))
    return kv_gpu_value_row(l, lane, i);
  const char *at = (const char *)kv_gpu_materialised_row(l, lane, i);
  return kv_gpu_plain_row(at, KV_F32);
}

/* Element x of entry i's key, or value. */
KV_DEVICE float kv_gpu_key(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                           int i, int x) {
  return kv_gpu_element(kv_gpu_key_row(l, lane, i), x);
}

KV_DEVICE float kv_gpu_value(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                             int i, int x) {
  return kv_gpu_element(kv_gpu_value_row(l, lane, i), x);
}

/* Element x of entry i's key before RoPE, which pairs elements as `turned`
 * says; 0: the key as it is. */
KV_DEVICE float kv_gpu_key_back(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                int turned, int i, int x) {
  const float *turn = turned ? kv_gpu_turn_of(l, lane->id[i]) : nullptr;
  kv_gpu_row key = kv_gpu_key_row(l, lane, i);
  if (!turn) return kv_gpu_element(key, x);
  kv_gpu_pair p = kv_gpu_pair_of(turned, l.shape.d, x);
  return kv_gpu_back(p, turn, x, kv_gpu_element(key, p.first),
                     kv_gpu_element(key, p.second));
}

/* The term added to logits of entry i because it stands for several tokens:
 * RN(needs.merge_bias * ln(weight)); 0 if its weight is 1 or there is no bias.
 */
KV_DEVICE float kv_gpu_bias(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                            int i) {
  if (l.needs.merge_bias == 0 || lane->weight[i] == 1) return 0;
  return kv_mul(l.needs.merge_bias, kv_log((float)lane->weight[i]));
}

#endif
