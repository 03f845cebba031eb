/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted sum of the values of a chunk whose rows lie in unified pages, of
 * both tiers as they stand in the lane: rows of codes come as they are by
 * asynchronous copies, to places as long as the longer ones need, and their
 * ranges become floats in shared memory once. Entries are added in the order of
 * the lane, as arithmetic 3 wants, so a row's tier is looked up row by row; it
 * is the same for all threads.
 *
 * Of fewer than 8 bits, column x and column x + width / 2 of a row are in one
 * byte, four bits apart, whatever the bits: a thread has both, of half of the
 * heads (kv_value_heads). What does not suit is read element by element.
 * Called by all threads of a block.
 */
#ifndef KV_GPU_VALUES_PAGED_CUH
#define KV_GPU_VALUES_PAGED_CUH

#include "gpu/lane/paged.cuh"
#include "gpu/lane/values.cuh"

constexpr int KV_PAGED_PIECES =
    8; /* of a row's codes: 256 elements of 4 bits */
constexpr int KV_PAGED_RANGES = 4; /* a row at most */

/* A chunk: its entries in lane order. */
typedef struct kv_paged_values {
  int width, n;        /* columns; rows */
  int pieces, ranges;  /* of 16 bytes that a row has; of any row's ranges */
  const int32_t *slot; /* [n] as of kv_gpu_paged.order */
  kv_piece *code;      /* [n][pieces] */
  float *range; /* [ranges][2][KV_GPU_CHUNK] scale and least of the rows */
} kv_paged_values;

KV_DEVICE bool kv_paged_side_suits(const kv_gpu_paged_side &s, int ranges) {
  return s.how.bits < 8 && s.codes * 8 == s.width * s.how.bits &&
         s.codes % 16 == 0 && s.codes <= KV_PAGED_PIECES * 16 &&
         ranges % s.ranges == 0 && s.width % ranges == 0 &&
         s.how.group * s.ranges == s.width;
}

/* Do rows of both tiers suit? room: slots, codes and ranges of a chunk. */
KV_DEVICE bool kv_paged_values_suit(const kv_gpu_paged &p, int n,
                                    const kv_paged_values &room,
                                    kv_paged_values *x) {
  const kv_gpu_paged_side &high = p.tier[KV_HIGH].side[KV_SIDE_V];
  const kv_gpu_paged_side &low = p.tier[KV_LOW].side[KV_SIDE_V];
  int most = high.codes > low.codes ? high.codes : low.codes;
  *x = room;
  x->width = high.width;
  x->n = n;
  x->pieces = most / 16;
  x->ranges = high.ranges > low.ranges ? high.ranges : low.ranges;
  return x->ranges <= KV_PAGED_RANGES && p.page % 16 == 0 &&
         kv_paged_side_suits(high, x->ranges) &&
         kv_paged_side_suits(low, x->ranges);
}

/* The thread's row, if it has one: where its codes are, which the caller shares
 * before kv_paged_values_fetch; and its ranges as floats, a tier's fewer ones
 * again for each of the chunk's. */
KV_DEVICE const char *kv_paged_values_row(const kv_gpu_paged &p, int lane,
                                          const kv_paged_values &x) {
  int j = kv_thread(), tier = kv_paged_tier(x.slot[j]);
  const kv_gpu_paged_side &s = p.tier[tier].side[KV_SIDE_V];
  kv_paged_row r =
      kv_paged_row_of(p, lane, tier, kv_paged_number(x.slot[j]), KV_SIDE_V);
  KV_UNROLL
  for (int g = 0; g < KV_PAGED_RANGES; g++) {
    if (g >= x.ranges) continue;
    kv_gpu_range by = kv_paged_range(s, r.meta, g * s.ranges / x.ranges);
    x.range[2 * g * KV_GPU_CHUNK + j] = by.scale;
    x.range[(2 * g + 1) * KV_GPU_CHUNK + j] = by.least;
  }
  return r.codes;
}

KV_DEVICE void kv_paged_values_fetch(const kv_gpu_paged &p,
                                     const char *const *row,
                                     const kv_paged_values &x) {
  int high = p.tier[KV_HIGH].side[KV_SIDE_V].codes;
  int low = p.tier[KV_LOW].side[KV_SIDE_V].codes;
  for (int at = kv_thread(); at < x.n * x.pieces; at += KV_BLOCK) {
    int j = at / x.pieces, from = (at - j * x.pieces) * 16;
    if (from < (kv_paged_tier(x.slot[j]) ? low : high))
      kv_async_16(&x.code[at], row[j] + from);
  }
  kv_async_commit();
}

/* How a thread finds its two columns in rows of a tier. */
typedef struct kv_paged_column {
  int at, shift; /* byte of a row; bits below the first column's code */
  uint32_t mask; /* of a code */
} kv_paged_column;

KV_DEVICE kv_paged_column kv_paged_column_of(const kv_gpu_paged_side &s,
                                             int x) {
  int plane = x / s.codes;
  return {x - plane * s.codes, plane * s.how.bits, (1u << s.how.bits) - 1};
}

/* A thread's columns x and x + width / 2 of a row, from the byte that has both:
 * codes are the bits of a float before and behind its point, less what it has
 * without them (gpu/formats/minmax.cuh). */
KV_DEVICE void kv_paged_pair(uint32_t byte, uint32_t mask, float *code) {
  constexpr uint32_t NEAR = 0x4b000000u, FAR = 0x4b000000u - (4u << 23);
  code[0] = kv_sub(kv_float((byte & mask) | NEAR), kv_float(NEAR));
  code[1] = kv_sub(kv_float((byte & mask << 4) | FAR), kv_float(FAR));
}

/* Row j of the chunk by the thread's columns. */
KV_DEVICE void kv_paged_codes(const kv_paged_values &x, int j, int32_t slot,
                              const kv_paged_column &high,
                              const kv_paged_column &low, float *code) {
  bool is_low = kv_paged_tier(slot);
  const uint8_t *row = (const uint8_t *)&x.code[j * x.pieces];
  uint32_t byte = row[is_low ? low.at : high.at];
  kv_paged_pair(byte >> (is_low ? low.shift : high.shift),
                is_low ? low.mask : high.mask, code);
}

/* A thread's two columns: how it finds them in rows of either tier, and the
 * ranges of each by rows, scales and KV_GPU_CHUNK later the least. */
typedef struct kv_paged_columns {
  kv_paged_column high, low;
  const float *near, *far;
} kv_paged_columns;

KV_DEVICE kv_paged_columns kv_paged_columns_of(const kv_gpu_paged &p,
                                               const kv_paged_values &x,
                                               int column) {
  int each = x.width / x.ranges, half = column + x.width / 2;
  return {kv_paged_column_of(p.tier[KV_HIGH].side[KV_SIDE_V], column),
          kv_paged_column_of(p.tier[KV_LOW].side[KV_SIDE_V], column),
          x.range + column / each * 2 * KV_GPU_CHUNK,
          x.range + half / each * 2 * KV_GPU_CHUNK};
}

/* Rows j to j + 3 of the chunk into the thread's chains. */
template <int OWN>
KV_DEVICE void kv_paged_weigh_four(const kv_paged_values &x,
                                   const kv_paged_columns &c, int j,
                                   const float *weight, float *a) {
  kv_piece slot = *(const kv_piece *)&x.slot[j];
  kv_quad by[4] = {
      *(const kv_quad *)&c.near[j], *(const kv_quad *)&c.near[j + KV_GPU_CHUNK],
      *(const kv_quad *)&c.far[j], *(const kv_quad *)&c.far[j + KV_GPU_CHUNK]};
  float v[8];
  KV_UNROLL
  for (int u = 0; u < 4; u++) {
    kv_paged_codes(x, j + u, (int32_t)slot.word[u], c.high, c.low, v + 2 * u);
    v[2 * u] = kv_fma(v[2 * u], by[0].x[u], by[1].x[u]);
    v[2 * u + 1] = kv_fma(v[2 * u + 1], by[2].x[u], by[3].x[u]);
  }
  KV_UNROLL
  for (int h = 0; h < OWN; h++) {
    kv_quad w = *(const kv_quad *)&weight[h * KV_GPU_CHUNK + j];
    KV_UNROLL
    for (int u = 0; u < 8; u++)
      a[2 * h + u % 2] = kv_fma(w.x[u / 2], v[u], a[2 * h + u % 2]);
  }
}

/* The sums of columns `column` and column + width / 2 for the thread's heads;
 * weight [HEADS][KV_GPU_CHUNK], a [heads][2]. Unrolled by hand: ptxas makes
 * sixteen turns of one where it may, and takes 165 registers for them. */
template <int HEADS>
KV_DEVICE void kv_paged_values_weigh(const kv_gpu_paged &p,
                                     const kv_paged_values &x, int column,
                                     const float *weight, float *a) {
  constexpr int OWN = kv_value_heads(HEADS);
  kv_paged_columns c = kv_paged_columns_of(p, x, column);
  int j = 0;
  weight += kv_value_first(HEADS) * KV_GPU_CHUNK;
  KV_ROLLED
  for (; j + 8 <= x.n; j += 8) {
    kv_paged_weigh_four<OWN>(x, c, j, weight, a);
    kv_paged_weigh_four<OWN>(x, c, j + 4, weight, a);
  }
  KV_ROLLED
  for (; j < x.n; j++) {
    float v[2];
    kv_paged_codes(x, j, x.slot[j], c.high, c.low, v);
    v[0] = kv_fma(v[0], c.near[j], c.near[j + KV_GPU_CHUNK]);
    v[1] = kv_fma(v[1], c.far[j], c.far[j + KV_GPU_CHUNK]);
    KV_UNROLL
    for (int u = 0; u < 2 * OWN; u++)
      a[u] = kv_fma(weight[u / 2 * KV_GPU_CHUNK + j], v[u % 2], a[u]);
  }
}

#endif
