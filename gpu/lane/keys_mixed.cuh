/* SPDX-License-Identifier: Apache-2.0
 *
 * The chains of logits (gpu/lane/keys.cuh) for entries stored in any mixture of
 * ways, re-indexed ones included: keys that are coded or rotated are computed
 * into their stage as floats, the others copied, and each thread has one entry
 * of a type of its own. Slower than the kernels of one type, and right for
 * every format. kv_key_chains_mixed is what others call, after each thread has
 * put its entry's kv_key_row_of into shared memory.
 */
#ifndef KV_GPU_KEYS_MIXED_CUH
#define KV_GPU_KEYS_MIXED_CUH

#include "gpu/lane/keys.cuh"

/* An entry's key. */
typedef struct kv_key_row {
  kv_gpu_row row;     /* at NULL: the entry is not needed */
  kv_gpu_turns turns; /* back NULL: no re-indexing */
} kv_key_row;

/* Element x of a key that is rotated to its place (turns). One thread's, as are
 * the next four. */
KV_DEVICE float kv_key_placed(const kv_gpu_layer &l, const kv_key_row &r,
                              int x) {
  kv_gpu_pair p = kv_gpu_pair_of(kv_gpu_turned_of(l), l.shape.d, x);
  return kv_gpu_placed(p, r.turns, x, kv_gpu_element(r.row, p.first),
                       kv_gpu_element(r.row, p.second));
}

/* The key of entry i of the lane; mine false: it is not needed. */
KV_DEVICE kv_key_row kv_key_row_of(const kv_gpu_layer &l,
                                   const kv_gpu_lane *lane, int i, bool mine) {
  kv_key_row r = {kv_gpu_plain_row(nullptr, KV_F32), {nullptr, nullptr}};
  if (!mine) return r;
  r.row = kv_gpu_key_row(l, lane, i);
  if (l.needs.reindex) r.turns = kv_gpu_turns_of(l, lane->id[i], i);
  return r;
}

/* True if its elements are computed, and not copied as they lie. */
KV_DEVICE bool kv_key_computed(const kv_key_row &r) {
  return r.row.slab || r.turns.back;
}

/* The type of its elements in its stage. */
KV_DEVICE kv_dtype kv_key_type(const kv_key_row &r) {
  return kv_key_computed(r) ? KV_F32 : (kv_dtype)r.row.type;
}

/* Computes four elements of a key from x on into *to, zeros past its end. */
KV_DEVICE void kv_key_compute(const kv_gpu_layer &l, const kv_key_row &r, int x,
                              kv_piece *to) {
  KV_ROLLED
  for (int e = 0; e < 4; e++) {
    float k = 0;
    if (x + e < l.shape.d)
      k = r.turns.back ? kv_key_placed(l, r, x + e)
                       : kv_gpu_element(r.row, x + e);
    to->word[e] = kv_bits(k);
  }
}

/* Fills, or starts to fill, a stage with its columns (gpu/lane/keys.cuh) of row
 * [KV_BLOCK], shared; all threads together, no barrier. */
KV_DEVICE void kv_key_fetch_mixed(const kv_gpu_layer &l, const kv_key_row *row,
                                  const kv_key_slab &s) {
  KV_ROLLED
  for (int u = 0; u < KV_KEY_PIECES; u++) {
    int at = u * KV_BLOCK + kv_thread(), p = at % KV_KEY_PIECES;
    const kv_key_row &r = row[at / KV_KEY_PIECES];
    if (!r.row.at) continue;
    kv_piece *to = &s.key[kv_key_at(at / KV_KEY_PIECES, p)];
    int size = kv_key_type(r) == KV_F32 ? 4 : 2, left = s.width * size - p * 16;
    if (left <= 0) continue;
    if (kv_key_computed(r))
      kv_key_compute(l, r, s.first + 4 * p, to);
    else
      kv_async_piece(to, r.row.at + s.first * size + p * 16, left);
  }
}

/* Adds to acc [QUERIES] the sums of the queries with the thread's entry, whose
 * key is row[thread]; row [KV_BLOCK], shared, was written before a barrier. q,
 * room: as in kv_key_chains. All threads together; has barriers, and ends with
 * one. */
template <int QUERIES>
KV_DEVICE void kv_key_chains_mixed(const kv_gpu_layer &l, const kv_key_row *row,
                                   const float *q, const kv_key_room &room,
                                   float *acc) {
  const kv_key_row &own = row[kv_thread()];
  kv_dtype type = kv_key_type(own);
  kv_key_pass<QUERIES, 1>(
      room, KV_KEY_COLUMNS / 2, l.shape.d, q,
      [&](const kv_key_slab &s) { kv_key_fetch_mixed(l, row, s); },
      [&](const kv_key_slab &s) {
        if (own.row.at && type == KV_F32)
          kv_key_link<QUERIES, 1, KV_F32>(s, acc);
        else if (own.row.at && type == KV_F16)
          kv_key_link<QUERIES, 1, KV_F16>(s, acc);
        else if (own.row.at)
          kv_key_link<QUERIES, 1, KV_BF16>(s, acc);
      });
}

#endif
