/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that a coding prepares, on the device: ref/FORMATS.md, Prepared rows,
 * and the twin of kv_lane_prepare. All threads of a block call these together;
 * a row is float[width] in shared or global memory, and changes in place. A
 * barrier comes before and after.
 */
#ifndef KV_GPU_PREPARE_CUH
#define KV_GPU_PREPARE_CUH

#include "gpu/lane/entry.cuh"
#include "ref/formats/hadamard.h"

/* kv_hadamard of blocks of n elements. */
KV_DEVICE void kv_gpu_hadamard(int width, int n, float *row) {
  float f = kv_hadamard_factor(n);
  for (int h = 1; h < n; h *= 2) {
    for (int j = kv_thread(); j < width / 2; j += KV_BLOCK) {
      int i = 2 * (j & ~(h - 1)) + (j & (h - 1));
      float a = row[i], b = row[i + h];
      row[i] = kv_add(a, b);
      row[i + h] = kv_sub(a, b);
    }
    __syncthreads();
  }
  for (int x = kv_thread(); x < width; x += KV_BLOCK)
    row[x] = kv_mul(row[x], f);
  __syncthreads();
}

/* The shift of a pair of a key whose position has the rotation `turn`; NULL:
 * position 0. Two threads never have the same pair. */
KV_DEVICE void kv_gpu_shift_pair(const kv_gpu_slab &s, const float *turn,
                                 const kv_gpu_pair &p, bool undo, float *row) {
  float u = s.shift[p.first], v = s.shift[p.second], u1 = u, v1 = v;
  if (turn && !s.pre_rope) {
    u1 = kv_gpu_forth(p, turn, p.first, u, v);
    v1 = kv_gpu_forth(p, turn, p.second, u, v);
  }
  row[p.first] = undo ? kv_add(row[p.first], u1) : kv_sub(row[p.first], u1);
  row[p.second] = undo ? kv_add(row[p.second], v1) : kv_sub(row[p.second], v1);
}

KV_DEVICE void kv_gpu_turn_pair(const kv_gpu_pair &p, const float *turn,
                                bool forth, float *row) {
  float a = row[p.first], b = row[p.second];
  row[p.first] = forth ? kv_gpu_forth(p, turn, p.first, a, b)
                       : kv_gpu_back(p, turn, p.first, a, b);
  row[p.second] = forth ? kv_gpu_forth(p, turn, p.second, a, b)
                        : kv_gpu_back(p, turn, p.second, a, b);
}

/* What comes before the matrix, and with undo after it. */
KV_DEVICE void kv_gpu_prepare_pairs(const kv_gpu_slab &s, const float *turn,
                                    bool undo, float *row) {
  if (!s.pairs) return; /* values, and keys that are only multiplied */
  for (int i = kv_thread(); i < s.width / 2; i += KV_BLOCK) {
    int x = s.pairs == KV_GPU_INTERLEAVED ? 2 * i : i;
    kv_gpu_pair p = kv_gpu_pair_of(s.pairs, s.width, x);
    if (turn && s.pre_rope && !undo) kv_gpu_turn_pair(p, turn, false, row);
    if (s.shift) kv_gpu_shift_pair(s, turn, p, undo, row);
    if (turn && s.pre_rope && undo) kv_gpu_turn_pair(p, turn, true, row);
  }
  __syncthreads();
}

/* Prepares a row for the slab, and undoes it. turn: of a key's position
 * (kv_gpu_turn_of), or NULL. */
KV_DEVICE void kv_gpu_prepare(const kv_gpu_slab &s, const float *turn,
                              float *row) {
  __syncthreads();
  kv_gpu_prepare_pairs(s, turn, false, row);
  if (s.rotate > 1) kv_gpu_hadamard(s.width, s.rotate, row);
}
KV_DEVICE void kv_gpu_restore(const kv_gpu_slab &s, const float *turn,
                              float *row) {
  __syncthreads();
  if (s.rotate > 1) kv_gpu_hadamard(s.width, s.rotate, row);
  kv_gpu_prepare_pairs(s, turn, true, row);
}

/* Writes K or V of entry i, prepared for the slab, into row. */
KV_DEVICE void kv_gpu_prepare_entry(const kv_gpu_layer &l,
                                    const kv_gpu_lane *lane, int i, bool key,
                                    const kv_gpu_slab &s, float *row) {
  kv_gpu_row from =
      key ? kv_gpu_key_row(l, lane, i) : kv_gpu_value_row(l, lane, i);
  __syncthreads();
  for (int x = kv_thread(); x < s.width; x += KV_BLOCK)
    row[x] = kv_gpu_element(from, x);
  kv_gpu_prepare(s, s.pairs ? kv_gpu_turn_of(l, lane->id[i]) : nullptr, row);
}

#endif
