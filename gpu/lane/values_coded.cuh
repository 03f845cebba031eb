/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted sum of the values of a chunk whose rows are all coded alike: blocks
 * of one row come as they are by asynchronous copies, their ranges become
 * floats in shared memory once, and each thread decodes a column, whose bits
 * stand at the same place of a byte in every row. A thread has a chain over the
 * entries for every head. A column here is an element of a row.
 *
 * For every format with kv_gpu_format_x::ROWS; a chunk that does not suit is
 * left to gpu/lane/values.cuh. Order, by all threads of the block together:
 * kv_coded_values_suit, kv_coded_values_fetch, kv_async_wait and a barrier,
 * kv_coded_values_widen, a barrier, kv_coded_values_weigh.
 */
#ifndef KV_GPU_VALUES_CODED_CUH
#define KV_GPU_VALUES_CODED_CUH

#include "gpu/lane/values.cuh"

/* Pieces of 16 bytes that a chunk's room has: for each row 128 bytes of codes,
 * its metadata, and two ranges as floats. */
constexpr int KV_CODED_VALUES = KV_GPU_CHUNK * (9 + 1);

/* A chunk that suits; each thread has a copy. */
typedef struct kv_coded_values {
  kv_minmax how;
  int format, width, n; /* a kv_gpu_format; columns, at most KV_BLOCK; rows */
  int metadata, ranges; /* bytes before a row's codes; its ranges */
  int pieces;           /* of its block, 16 bytes each */
  kv_piece *code;       /* [n][pieces] blocks, shared */
  float *range; /* [ranges][2][KV_GPU_CHUNK] scale and least of the rows, shared
                 */
} kv_coded_values;

/* Do the chunk's n rows suit? All threads get the same answer. row
 * [KV_GPU_CHUNK]: where they are; room: `size` bytes of shared memory. Fills in
 * x. Has barriers unless the answer is false early. */
KV_DEVICE bool kv_coded_values_suit(int n, const kv_gpu_row *row, char *room,
                                    int size, kv_coded_values *x) {
  const kv_gpu_slab *slab = row[0].slab;
  if (!slab || slab->in.pages || !kv_gpu_has_rows(slab->format)) return false;
  const kv_minmax how = *(const kv_minmax *)slab->settings;
  int width = slab->width, plane = width * how.bits / 8;
  int ranges = (width + how.group - 1) / how.group;
  int metadata = (int)kv_gpu_block_size(*slab, 1).metadata;
  int pieces = (metadata + plane + 15) / 16;
  *x = {how,    slab->format,     width,
        n,      metadata,         ranges,
        pieces, (kv_piece *)room, (float *)(room + KV_GPU_CHUNK * 16 * pieces)};
  if (width > KV_BLOCK || plane * 8 != width * how.bits ||
      slab->size < (size_t)pieces * 16 || slab->size % 16 ||
      KV_GPU_CHUNK * (16 * pieces + 8 * ranges) > size)
    return false;
  return !kv_block_any(kv_thread() < n && row[kv_thread()].slab != slab);
}

/* Starts the copies of the rows' blocks. */
KV_DEVICE void kv_coded_values_fetch(const kv_gpu_row *row,
                                     const kv_coded_values &x) {
  for (int at = kv_thread(); at < x.n * x.pieces; at += KV_BLOCK)
    kv_async_16(&x.code[at], row[at / x.pieces].at + at % x.pieces * 16);
  kv_async_commit();
}

/* Makes the ranges floats, a row a thread; the blocks have arrived. */
KV_DEVICE void kv_coded_values_widen(const kv_coded_values &x) {
  int j = kv_thread();
  if (j >= x.n) return;
  const kv_piece *from = x.code + j * x.pieces;
  for (int g = 0; g < x.ranges; g++) {
    kv_gpu_range r = kv_gpu_range_of(x.format, x.how, x.ranges, g, from);
    x.range[2 * g * KV_GPU_CHUNK + j] = r.scale;
    x.range[(2 * g + 1) * KV_GPU_CHUNK + j] = r.least;
  }
}

/* How a thread finds its column, of its own number, in a row. */
typedef struct kv_coded_column {
  const uint8_t *byte;  /* that has it in row 0 */
  const float *range;   /* [KV_GPU_CHUNK] its scales by row, then the least */
  uint32_t mask, magic; /* its bits in that byte; the bits of a float of which
                           the code is the lowest part: float less magic is the
                           code */
  int rule;             /* of the settings */
} kv_coded_column;

/* The calling thread's. */
KV_DEVICE kv_coded_column kv_coded_column_of(const kv_coded_values &x) {
  int plane = x.width * x.how.bits / 8, column = kv_thread();
  int shift = column / plane * x.how.bits;
  kv_coded_column c = {(const uint8_t *)x.code + x.metadata + column % plane,
                       x.range + column / x.how.group * 2 * KV_GPU_CHUNK,
                       ((1u << x.how.bits) - 1) << shift,
                       0x4b000000u - ((uint32_t)shift << 23), x.how.rule};
  return c;
}

/* The column's number in the row whose byte is c.byte[byte], by its scale
 * (step) and least; FLOATS: codes are floats of a few bits. One thread's. */
template <bool FLOATS>
KV_DEVICE float kv_coded_value(const kv_coded_column &c, int byte, float step,
                               float min) {
  if (FLOATS) return kv_mul(kv_absmax_float(c.rule, c.byte[byte]), step);
  float code = kv_float((c.byte[byte] & c.mask) | c.magic);
  code = kv_sub(code, kv_float(c.magic));
  return kv_fma(code, step, min);
}

/* Adds the rows, in order, to the thread's sums a [HEADS] of its column. p
 * [HEADS][KV_GPU_CHUNK], shared: the weights. No barrier. */
template <int HEADS, bool FLOATS>
KV_DEVICE void kv_coded_values_weigh(const kv_coded_values &x, const float *p,
                                     float *a) {
  if (kv_thread() >= x.width) return;
  kv_coded_column c = kv_coded_column_of(x);
  int j = 0, row = x.pieces * 16, n = x.n;
  KV_TWICE
  for (; j + 4 <= n; j += 4) {
    kv_quad step = *(const kv_quad *)&c.range[j];
    kv_quad min = *(const kv_quad *)&c.range[j + KV_GPU_CHUNK];
    float v[4];
    KV_UNROLL
    for (int u = 0; u < 4; u++)
      v[u] = kv_coded_value<FLOATS>(c, u * row, step.x[u], min.x[u]);
    c.byte += 4 * row;
    KV_UNROLL
    for (int h = 0; h < HEADS; h++) {
      kv_quad w = *(const kv_quad *)&p[h * KV_GPU_CHUNK + j];
      KV_UNROLL
      for (int u = 0; u < 4; u++) a[h] = kv_fma(w.x[u], v[u], a[h]);
    }
  }
  KV_ROLLED
  for (; j < n; j++) {
    float v =
        kv_coded_value<FLOATS>(c, 0, c.range[j], c.range[j + KV_GPU_CHUNK]);
    c.byte += row;
    KV_UNROLL
    for (int h = 0; h < HEADS; h++)
      a[h] = kv_fma(p[h * KV_GPU_CHUNK + j], v, a[h]);
  }
}

#endif
