/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted sum of the values of one chunk of a view. Rows pass through shared
 * memory in stages, so that the next stage is loaded while one is computed
 * (gpu/block/async.h). A thread has two neighbouring columns for half of the
 * heads that see the chunk, and a chain over the entries for each column and
 * head. So a load from shared memory gets two fp16 numbers, and a load of four
 * weights, shared by all threads of a warp, serves two columns. A column is an
 * element of a row.
 *
 * kv_values_sum, called by all threads of the block together, does all of it;
 * the others are its steps, without a barrier.
 */
#ifndef KV_GPU_VALUES_CUH
#define KV_GPU_VALUES_CUH

#include "gpu/block/async.h"
#include "gpu/block/block.cuh"
#include "gpu/lane/entry.cuh"

/* Stages in memory and their size; a TYPE besides those of kv_dtype. */
enum {
  KV_VALUE_STAGES = 2,
  KV_VALUE_PIECES = 512, /* of 16 bytes a stage */
  KV_VALUE_MIXED = -1    /* each row has its own type; decoded ones are fp32 */
};
constexpr int KV_VALUE_PAIRS = KV_BLOCK / 2; /* of columns, that a block has */

/* Some columns of the chunk's rows, and how they pass through the stages. */
typedef struct kv_columns {
  const kv_gpu_row *row; /* [KV_GPU_CHUNK] shared: where each value is */
  kv_piece *stage;       /* [KV_VALUE_STAGES][KV_VALUE_PIECES] shared */
  int first, width;      /* the first column; how many, at most KV_BLOCK */
  int shift, rows; /* a row has 1 << shift pieces of a stage; rows of a stage */
  bool whole;      /* all pieces are 16 bytes of a row of the trace's type */
} kv_columns;

/* Columns `first` on. size: most bytes of an element in its stage, 2 or 4;
 * plain: all rows are of the trace's type, of that size. */
KV_DEVICE kv_columns kv_columns_from(const kv_gpu_layer &l, int first, int size,
                                     bool plain, const kv_gpu_row *row,
                                     kv_piece *stage) {
  int left = l.shape.d_v - first, shift = 0;
  int width = left < KV_BLOCK ? left : KV_BLOCK;
  while (16 << shift < width * size) shift++;
  int rows = KV_VALUE_PIECES >> shift;
  bool whole =
      plain && 16 << shift == width * size && l.shape.d_v * size % 16 == 0;
  kv_columns x = {row,   stage, first,
                  width, shift, rows < KV_GPU_CHUNK ? rows : KV_GPU_CHUNK,
                  whole};
  return x;
}

/* --- the part of a thread ------------------------------------------------ */

/* The part of `heads` heads that a thread computes: kv_value_heads of them,
 * from kv_value_first on, for the columns kv_value_column and the next one. The
 * first half of the block has the first heads, the second half (kv_value_upper)
 * the last ones. If the number is odd, both compute the middle one. */
KV_DEVICE constexpr int kv_value_heads(int heads) { return (heads + 1) / 2; }
KV_DEVICE bool kv_value_upper() { return kv_thread() >= KV_VALUE_PAIRS; }
KV_DEVICE int kv_value_column() { return kv_thread() % KV_VALUE_PAIRS * 2; }
KV_DEVICE int kv_value_first(int heads) {
  return kv_value_upper() ? heads - kv_value_heads(heads) : 0;
}
/* True if the thread's sum of its head number h counts: for the middle head
 * only the first half's does. */
KV_DEVICE bool kv_value_mine(int heads, int h) {
  return !kv_value_upper() ||
         kv_value_first(heads) + h >= kv_value_heads(heads);
}

/* --- stages -------------------------------------------------------------- */

/* Decodes four elements of a row from x on into *to, zeros past its end. One
 * thread's. */
KV_DEVICE void kv_value_piece(const kv_gpu_layer &l, const kv_gpu_row &r, int x,
                              kv_piece *to) {
  float v[4] = {};
  if (x + 4 > l.shape.d_v ||
      !kv_gpu_decode_four(*r.slab, kv_gpu_row_block(r), r.member, x, v)) {
    KV_ROLLED
    for (int e = 0; e < 4; e++)
      kv_gpu_push(v, x + e < l.shape.d_v ? kv_gpu_element(r, x + e) : 0);
  }
  KV_UNROLL
  for (int e = 0; e < 4; e++) to->word[e] = kv_bits(v[e]);
}

/* Starts the copies of stage t: rows t * x.rows and on of the chunk's n, if
 * any. PLAIN: all rows are of the trace's type. */
template <bool PLAIN>
KV_DEVICE void kv_values_fetch(const kv_gpu_layer &l, const kv_columns &x,
                               int n, int t) {
  kv_piece *stage = x.stage + t % KV_VALUE_STAGES * KV_VALUE_PIECES;
  int first = t * x.rows, rows = n - first < x.rows ? n - first : x.rows;
  int end = rows << x.shift, p = kv_thread() & ((1 << x.shift) - 1);
  if (PLAIN && x.whole) {
    int size = l.shape.dtype == KV_F32 ? 4 : 2, from = x.first * size + p * 16;
    const kv_gpu_row *row = x.row + first + (kv_thread() >> x.shift);
    for (int at = kv_thread(); at < end; at += KV_BLOCK) {
      kv_async_16(&stage[at], row->at + from);
      row += KV_BLOCK >> x.shift;
    }
    kv_async_commit();
    return;
  }
  KV_ROLLED
  for (int at = kv_thread(); at < end; at += KV_BLOCK) {
    const kv_gpu_row &r = x.row[first + (at >> x.shift)];
    int size = r.type == KV_F32 ? 4 : 2, left = x.width * size - p * 16;
    if (left <= 0) continue;
    if (!PLAIN && r.slab)
      kv_value_piece(l, r, x.first + 4 * p, &stage[at]);
    else
      kv_async_piece(&stage[at], r.at + x.first * size + p * 16, left);
  }
  kv_async_commit();
}

/* v[0], v[1]: the thread's two columns in row j of the chunk, which is at `at`
 * in its stage. TYPE: a kv_dtype or KV_VALUE_MIXED. One thread's. */
template <int TYPE>
KV_DEVICE void kv_value_pair(const kv_columns &x, int j, const char *at,
                             float *v) {
  int type = TYPE == KV_VALUE_MIXED ? (int)x.row[j].type : TYPE;
  if (type == KV_F32) {
    kv_pair pair = ((const kv_pair *)at)[kv_thread() % KV_VALUE_PAIRS];
    v[0] = pair.x[0];
    v[1] = pair.x[1];
    return;
  }
  uint32_t w = ((const uint32_t *)at)[kv_thread() % KV_VALUE_PAIRS];
  kv_gpu_widen_two((kv_dtype)type, w, v);
}

/* kv_values_weigh for rows of one TYPE, or KV_VALUE_MIXED. */
template <int HEADS, int TYPE>
KV_DEVICE void kv_values_weigh_as(const kv_columns &x, int n, int t,
                                  const float *p, float *a) {
  constexpr int OWN = kv_value_heads(HEADS);
  int j = t * x.rows, end = j + x.rows < n ? j + x.rows : n;
  int step = 16 << x.shift;
  const char *at =
      (const char *)(x.stage + t % KV_VALUE_STAGES * KV_VALUE_PIECES);
  p += kv_value_first(HEADS) * KV_GPU_CHUNK;
  KV_TWICE
  for (; j + 4 <= end; j += 4, at += 4 * step) {
    float v[8];
    KV_UNROLL
    for (int u = 0; u < 4; u++)
      kv_value_pair<TYPE>(x, j + u, at + u * step, v + 2 * u);
    KV_UNROLL
    for (int h = 0; h < OWN; h++) {
      kv_quad w = *(const kv_quad *)&p[h * KV_GPU_CHUNK + j];
      KV_UNROLL
      for (int u = 0; u < 8; u++)
        a[2 * h + u % 2] = kv_fma(w.x[u / 2], v[u], a[2 * h + u % 2]);
    }
  }
  KV_ROLLED
  for (; j < end; j++, at += step) {
    float v[2];
    kv_value_pair<TYPE>(x, j, at, v);
    KV_UNROLL
    for (int u = 0; u < 2 * OWN; u++)
      a[u] = kv_fma(p[u / 2 * KV_GPU_CHUNK + j], v[u % 2], a[u]);
  }
}

/* Adds the rows of stage t, in order, to the thread's sums a
 * [kv_value_heads(HEADS)][2], which were 0 before the first stage. p
 * [HEADS][KV_GPU_CHUNK], shared: the weights. No barrier. */
template <int HEADS, bool PLAIN>
KV_DEVICE void kv_values_weigh(const kv_gpu_layer &l, const kv_columns &x,
                               int n, int t, const float *p, float *a) {
  if (kv_value_column() >= x.width || (HEADS == 1 && kv_value_upper())) return;
  if (!PLAIN)
    kv_values_weigh_as<HEADS, KV_VALUE_MIXED>(x, n, t, p, a);
  else if (l.shape.dtype == KV_F16)
    kv_values_weigh_as<HEADS, KV_F16>(x, n, t, p, a);
  else if (l.shape.dtype == KV_BF16)
    kv_values_weigh_as<HEADS, KV_BF16>(x, n, t, p, a);
  else
    kv_values_weigh_as<HEADS, KV_F32>(x, n, t, p, a);
}

/* Writes the thread's sums of the columns to l.part, which join reads, for
 * chunk c of `count` query heads of the layer from `head` on; skips heads past
 * these. One thread's. */
template <int HEADS>
KV_DEVICE void kv_values_keep(const kv_gpu_layer &l, const kv_columns &x,
                              int head, int count, int c, const float *a) {
  int column = kv_value_column(), base = kv_value_first(HEADS);
  if (column >= x.width) return;
  KV_UNROLL
  for (int h = 0; h < kv_value_heads(HEADS); h++) {
    if (base + h >= count || !kv_value_mine(HEADS, h)) continue;
    size_t chunk = (size_t)(head + base + h) * (size_t)l.chunks + (size_t)c;
    float *to = l.part + chunk * (size_t)l.shape.d_v + x.first + column;
    to[0] = a[2 * h];
    if (column + 1 < x.width) to[1] = a[2 * h + 1];
  }
}

/* Chunk c for `count` <= HEADS query heads of the layer from `head` on, n
 * entries, whose values are row [KV_GPU_CHUNK]: writes their sums, weighted by
 * p [HEADS][KV_GPU_CHUNK], to l.part. row, p and stage are shared memory.
 * meanwhile(): called once while the first rows are copied; may write p. PLAIN:
 * all rows are of the trace's type. Has barriers. */
template <int HEADS, bool PLAIN, class Meanwhile>
KV_DEVICE void kv_values_sum(const kv_gpu_layer &l, int head, int count, int c,
                             int n, const kv_gpu_row *row, kv_piece *stage,
                             const float *p, const Meanwhile &meanwhile) {
  constexpr int OWN = 2 * kv_value_heads(HEADS);
  int size = PLAIN && l.shape.dtype != KV_F32 ? 2 : 4;
  for (int first = 0; first < l.shape.d_v; first += KV_BLOCK) {
    kv_columns x = kv_columns_from(l, first, size, PLAIN, row, stage);
    float sum[OWN];
    KV_UNROLL
    for (int u = 0; u < OWN; u++) sum[u] = 0;
    for (int t = 0; t < KV_VALUE_STAGES; t++)
      kv_values_fetch<PLAIN>(l, x, n, t);
    if (first == 0) meanwhile();
    for (int t = 0; t * x.rows < n; t++) {
      kv_async_wait<KV_VALUE_STAGES - 1>();
      __syncthreads();
      kv_values_weigh<HEADS, PLAIN>(l, x, n, t, p, sum);
      __syncthreads();
      kv_values_fetch<PLAIN>(l, x, n, t + KV_VALUE_STAGES);
    }
    kv_values_keep<HEADS>(l, x, head, count, c, sum);
  }
}

#endif
