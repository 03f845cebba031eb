/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted sum of the values of one chunk of a view. Rows pass through shared
 * memory in stages, so that the next stage is loaded while one is computed
 * (gpu/block/async.h). Each thread has one column, and one chain over the
 * entries for every head that sees them.
 *
 * Called by all threads of a block. Between kv_values_fetch and kv_values_weigh
 * of a stage the caller puts kv_async_wait and a barrier; between
 * kv_values_weigh and the next kv_values_fetch a barrier.
 */
#ifndef KV_GPU_VALUES_CUH
#define KV_GPU_VALUES_CUH

#include "gpu/block/async.h"
#include "gpu/block/block.cuh"
#include "gpu/lane/entry.cuh"

enum {
  KV_VALUE_STAGES = 2,
  KV_VALUE_PIECES = 512, /* of 16 bytes a stage */
  KV_VALUE_MIXED = -1    /* each row has its own type; decoded ones are fp32 */
};

/* A range of columns of the chunk's rows; a row's part of a stage is a power of
 * two of pieces. */
typedef struct kv_columns {
  const kv_gpu_row *row; /* [KV_GPU_CHUNK] */
  kv_piece *stage;       /* [KV_VALUE_STAGES][KV_VALUE_PIECES] */
  int first, width;
  int shift, rows; /* pieces a row, rows a stage */
} kv_columns;

KV_DEVICE kv_columns kv_columns_from(const kv_gpu_layer &l, int first, int size,
                                     const kv_gpu_row *row, kv_piece *stage) {
  int left = l.shape.d_v - first, shift = 0;
  int width = left < KV_BLOCK ? left : KV_BLOCK;
  while (16 << shift < width * size) shift++;
  int rows = KV_VALUE_PIECES >> shift;
  kv_columns x = {row,   stage, first,
                  width, shift, rows < KV_GPU_CHUNK ? rows : KV_GPU_CHUNK};
  return x;
}

/* Four elements of a coded row from x on, zeros past its end. */
KV_DEVICE void kv_value_piece(const kv_gpu_layer &l, const kv_gpu_row &r, int x,
                              kv_piece *to) {
  kv_piece piece;
  KV_UNROLL
  for (int e = 0; e < 4; e++)
    piece.word[e] = x + e < l.shape.d_v ? kv_bits(kv_gpu_element(r, x + e)) : 0;
  *to = piece;
}

/* Stage t: rows t * x.rows .. of the chunk's n. */
template <bool PLAIN>
KV_DEVICE void kv_values_fetch(const kv_gpu_layer &l, const kv_columns &x,
                               int n, int t) {
  kv_piece *stage = x.stage + t % KV_VALUE_STAGES * KV_VALUE_PIECES;
  int first = t * x.rows, rows = n - first < x.rows ? n - first : x.rows;
  for (int at = kv_thread(); at < rows << x.shift; at += KV_BLOCK) {
    const kv_gpu_row &r = x.row[first + (at >> x.shift)];
    int p = at & ((1 << x.shift) - 1), size = r.type == KV_F32 ? 4 : 2;
    int left = x.width * size - p * 16;
    if (left <= 0) continue;
    if (!PLAIN && r.slab)
      kv_value_piece(l, r, x.first + 4 * p, &stage[at]);
    else
      kv_async_piece(&stage[at], r.at + x.first * size + p * 16, left);
  }
  kv_async_commit();
}

/* The thread's element of row j, at its address in the stage. */
template <int TYPE>
KV_DEVICE float kv_value_at(const kv_columns &x, int j, const char *at) {
  int type = TYPE == KV_VALUE_MIXED ? (int)x.row[j].type : TYPE;
  if (type == KV_F32) return ((const float *)at)[kv_thread()];
  return kv_gpu_widen((kv_dtype)type, ((const uint16_t *)at)[kv_thread()]);
}

/* Stage t into the chains of the thread's column, j ascending. */
template <int HEADS, int TYPE>
KV_DEVICE void kv_values_weigh_as(const kv_columns &x, int n, int t,
                                  const float *p, float *a) {
  int j = t * x.rows, end = j + x.rows < n ? j + x.rows : n;
  int step = 16 << x.shift;
  const char *at =
      (const char *)(x.stage + t % KV_VALUE_STAGES * KV_VALUE_PIECES);
  for (; j + 4 <= end; j += 4, at += 4 * step) {
    float v[4];
    KV_UNROLL
    for (int u = 0; u < 4; u++)
      v[u] = kv_value_at<TYPE>(x, j + u, at + u * step);
    KV_UNROLL
    for (int h = 0; h < HEADS; h++) {
      kv_quad w = *(const kv_quad *)&p[h * KV_GPU_CHUNK + j];
      KV_UNROLL
      for (int u = 0; u < 4; u++) a[h] = kv_fma(w.x[u], v[u], a[h]);
    }
  }
  for (; j < end; j++, at += step) {
    float v = kv_value_at<TYPE>(x, j, at);
    KV_UNROLL
    for (int h = 0; h < HEADS; h++)
      a[h] = kv_fma(p[h * KV_GPU_CHUNK + j], v, a[h]);
  }
}

template <int HEADS, bool PLAIN>
KV_DEVICE void kv_values_weigh(const kv_gpu_layer &l, const kv_columns &x,
                               int n, int t, const float *p, float *a) {
  if (kv_thread() >= x.width) return;
  if (!PLAIN)
    kv_values_weigh_as<HEADS, KV_VALUE_MIXED>(x, n, t, p, a);
  else if (l.shape.dtype == KV_F16)
    kv_values_weigh_as<HEADS, KV_F16>(x, n, t, p, a);
  else if (l.shape.dtype == KV_BF16)
    kv_values_weigh_as<HEADS, KV_BF16>(x, n, t, p, a);
  else
    kv_values_weigh_as<HEADS, KV_F32>(x, n, t, p, a);
}

#endif
