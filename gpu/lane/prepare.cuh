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
template <class Row>
KV_DEVICE void kv_gpu_hadamard(int rows, int width, int n, const Row &row) {
  float f = kv_hadamard_factor(n);
  int half = width / 2;
  for (int h = 1; h < n; h *= 2) {
    for (int at = kv_thread(); at < rows * half; at += KV_BLOCK) {
      int r = at / half, j = at - r * half;
      float *x = row(r) + 2 * (j & ~(h - 1)) + (j & (h - 1));
      float a = x[0], b = x[h];
      x[0] = kv_add(a, b);
      x[h] = kv_sub(a, b);
    }
    __syncthreads();
  }
  for (int at = kv_thread(); at < rows * width; at += KV_BLOCK) {
    float *x = row(at / width) + at % width;
    *x = kv_mul(*x, f);
  }
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
template <class Row, class Turn>
KV_DEVICE void kv_gpu_prepare_pairs(const kv_gpu_slab &s, int rows, bool undo,
                                    const Row &row, const Turn &turn_of) {
  if (!s.pairs) return; /* values, and keys that are only multiplied */
  int half = s.width / 2;
  for (int at = kv_thread(); at < rows * half; at += KV_BLOCK) {
    int r = at / half, i = at - r * half;
    int x = s.pairs == KV_GPU_INTERLEAVED ? 2 * i : i;
    kv_gpu_pair p = kv_gpu_pair_of(s.pairs, s.width, x);
    const float *turn = turn_of(r);
    if (turn && s.pre_rope && !undo) kv_gpu_turn_pair(p, turn, false, row(r));
    if (s.shift) kv_gpu_shift_pair(s, turn, p, undo, row(r));
    if (turn && s.pre_rope && undo) kv_gpu_turn_pair(p, turn, true, row(r));
  }
  __syncthreads();
}

/* Prepares rows for the slab, or undoes it. row(r): row r; turn(r): of its
 * position (kv_gpu_turn_of), or NULL; only called for keys. */
template <class Row, class Turn>
KV_DEVICE void kv_gpu_prepare(const kv_gpu_slab &s, int rows, bool undo,
                              const Row &row, const Turn &turn) {
  __syncthreads();
  if (!undo) kv_gpu_prepare_pairs(s, rows, false, row, turn);
  if (s.rotate > 1) kv_gpu_hadamard(rows, s.width, s.rotate, row);
  if (undo) kv_gpu_prepare_pairs(s, rows, true, row, turn);
}

#endif
