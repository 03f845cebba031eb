/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over lanes whose coded rows are in unified pages: logits and
 * outputs are, to the bit, those of attention over the same lanes in slots.
 * Arithmetic 1 and 3 determine what may be computed in page order:
 *
 *   a logit     one chain along d of one entry: any order of entries, so page
 *               by page (gpu/backend/paged_logits.cu)
 *   m_c, p, l_c a chunk's entries are 128 neighbours of the lane; among them
 *               the order changes nothing
 *   a_c         a chain over the chunk's entries in the order of the lane
 *   join        in the order of chunks
 *
 * A block of values has a chunk of the lane and reads its rows by their
 * references; both tiers are mixed in it as in the lane, and a row's tier is
 * the same for all threads. Codes and metadata are read once for up to 8 heads
 * of a lane; each head's logits are 4 bytes a token, written and read.
 *
 * Every head sees all entries of its lane; the layer's fields are those of
 * attend.cu.
 */
#include "gpu/block/async.h"
#include "gpu/block/block.cuh"
#include "gpu/lane/entry.cuh"
#include "gpu/lane/paged.cuh"
#include "gpu/lane/weigh.cuh"
#include "gpu/shared/device.h"

/* --- values in unified pages ---------------------------------------------- */

/* Weighted sum of the values of a chunk whose rows lie in unified pages, of
 * both tiers as they stand in the lane: rows of codes come as they are by
 * asynchronous copies, to places as long as the longer ones need, and their
 * ranges become floats in shared memory once. Entries are added in the order of
 * the lane, as everywhere in attention (ref/backend/attend.h), so a row's tier
 * is looked up row by row; it is the same for all threads.
 *
 * A column here is an element of a row. Of fewer than 8 bits, column x and
 * column x + width / 2 of a row are in one byte, four bits apart, whatever the
 * bits. What does not suit is read element by element (gpu/backend/paged.cu,
 * the only user).
 *
 * Order, by all threads of the block together: kv_paged_values_suit; the caller
 * writes the slots; kv_paged_values_row by the threads that have a row; a
 * barrier, kv_paged_values_fetch, kv_async_wait and a barrier,
 * kv_paged_values_weigh. The others are any one thread's. */

/* Pieces of 16 bytes of a row's codes at most (256 elements of 4 bits); its
 * ranges at most. */
constexpr int KV_PAGED_PIECES = 8;
constexpr int KV_PAGED_RANGES = 4;

/* A chunk's rows, in the order of the lane; pointers are to shared memory. */
typedef struct kv_paged_values {
  int width, n;        /* columns; rows */
  int pieces;          /* of 16 bytes that each row has room for */
  int ranges;          /* of a row: the more of both tiers */
  const int32_t *slot; /* [n] kv_paged_slot of each row, the caller's */
  kv_piece *code;      /* [n][pieces] */
  float *range; /* [ranges][2][KV_GPU_CHUNK] scale and least of the rows */
} kv_paged_values;

/* A tier and a number in it in one word, and both of such a word. */
KV_DEVICE int32_t kv_paged_slot(int tier, int number) {
  return 2 * number + tier;
}
KV_DEVICE int kv_paged_tier(int32_t slot) { return slot & 1; }
KV_DEVICE int kv_paged_number(int32_t slot) { return slot >> 1; }

/* True if rows of a tier can be read so, with its ranges repeated to `ranges`.
 */
KV_DEVICE bool kv_paged_side_suits(const kv_gpu_paged_side &s, int ranges) {
  return s.how.bits < 8 && s.codes * 8 == s.width * s.how.bits &&
         s.codes % 16 == 0 && s.codes <= KV_PAGED_PIECES * 16 &&
         ranges % s.ranges == 0 && s.width % ranges == 0 &&
         s.how.group * s.ranges == s.width;
}

/* True if rows of both tiers suit; the same for all threads, no barrier. Fills
 * in x for n rows, with the three pointers of room. */
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

/* Called by thread j < n for row j of the chunk, whose slot is written: returns
 * where its codes are, and writes its ranges into x.range, those of a tier with
 * fewer several times. */
KV_DEVICE const char *kv_paged_values_row(const kv_gpu_paged &p, int lane,
                                          const kv_paged_values &x) {
  int j = kv_thread(), tier = kv_paged_tier(x.slot[j]);
  const kv_gpu_paged_side &s = p.tier[tier].side[KV_SIDE_V];
  kv_gpu_block b =
      kv_paged_block(p, lane, tier, kv_paged_number(x.slot[j]), KV_SIDE_V);
  KV_UNROLL
  for (int g = 0; g < KV_PAGED_RANGES; g++) {
    if (g >= x.ranges) continue;
    kv_gpu_range by = kv_paged_range(s, b.metadata, g * s.ranges / x.ranges);
    x.range[2 * g * KV_GPU_CHUNK + j] = by.scale;
    x.range[(2 * g + 1) * KV_GPU_CHUNK + j] = by.least;
  }
  return b.codes;
}

/* Starts the copies of the rows' codes; row [n], shared: what
 * kv_paged_values_row returned for each. */
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

/* Columns of a thread: of one head two, as half of the threads suffice; of more
 * one, so that a number is decoded once for all of them. */
KV_DEVICE constexpr int kv_paged_columns(int heads) {
  return heads == 1 ? 2 : 1;
}

/* How a thread finds a column x in rows of a tier; column x + width / 2 is in
 * the same byte, 4 bits further. */
typedef struct kv_paged_column {
  int at;         /* byte of the row's codes */
  uint32_t mask;  /* the code's bits in that byte */
  uint32_t magic; /* bits of a float of which the code is the lowest part: that
                     float less magic is the code */
} kv_paged_column;

/* Of column x in rows of a side of a tier. */
KV_DEVICE kv_paged_column kv_paged_column_of(const kv_gpu_paged_side &s,
                                             int x) {
  int plane = x / s.codes, shift = plane * s.how.bits;
  return {x - plane * s.codes, ((1u << s.how.bits) - 1) << shift,
          0x4b000000u - ((uint32_t)shift << 23)};
}

/* A thread's column in rows of either tier, and its ranges. */
typedef struct kv_paged_own {
  kv_paged_column high, low;
  const float *near; /* [KV_GPU_CHUNK] scales by row, then the least */
  const float *far;  /* the same of column x + width / 2 */
} kv_paged_own;

/* That of a column; and of it what holds in rows of the low tier, or of the
 * high one. */
KV_DEVICE kv_paged_own kv_paged_own_of(const kv_gpu_paged &p,
                                       const kv_paged_values &x, int column) {
  int each = x.width / x.ranges, half = (column + x.width / 2) % x.width;
  return {kv_paged_column_of(p.tier[KV_HIGH].side[KV_SIDE_V], column),
          kv_paged_column_of(p.tier[KV_LOW].side[KV_SIDE_V], column),
          x.range + column / each * 2 * KV_GPU_CHUNK,
          x.range + half / each * 2 * KV_GPU_CHUNK};
}

KV_DEVICE kv_paged_column kv_paged_column_in(const kv_paged_own &c, bool low) {
  return {low ? c.low.at : c.high.at, low ? c.low.mask : c.high.mask,
          low ? c.low.magic : c.high.magic};
}

/* code [COLUMNS]: the codes of the thread's columns in row j. */
template <int COLUMNS>
KV_DEVICE void kv_paged_codes(const kv_paged_values &x, int j,
                              const kv_paged_column &c, float *code) {
  const uint8_t *row = (const uint8_t *)&x.code[j * x.pieces];
  uint32_t byte = row[c.at];
  KV_UNROLL
  for (int e = 0; e < COLUMNS; e++) {
    uint32_t magic = c.magic - ((uint32_t)(4 * e) << 23);
    code[e] =
        kv_sub(kv_float((byte & c.mask << 4 * e) | magic), kv_float(magic));
  }
}

/* v [4][COLUMNS]: those of rows j to j + 3; where these are of one tier, it is
 * looked up once. */
template <int COLUMNS>
KV_DEVICE void kv_paged_four_codes(const kv_paged_values &x,
                                   const kv_paged_own &c, int j, float *v) {
  kv_piece slot = *(const kv_piece *)&x.slot[j];
  const uint32_t *s = slot.word;
  if (((s[0] ^ s[1]) | (s[0] ^ s[2]) | (s[0] ^ s[3])) & 1) {
    KV_UNROLL
    for (int u = 0; u < 4; u++)
      kv_paged_codes<COLUMNS>(
          x, j + u, kv_paged_column_in(c, kv_paged_tier((int32_t)s[u])),
          v + COLUMNS * u);
    return;
  }
  kv_paged_column own = kv_paged_column_in(c, kv_paged_tier((int32_t)s[0]));
  KV_UNROLL
  for (int u = 0; u < 4; u++)
    kv_paged_codes<COLUMNS>(x, j + u, own, v + COLUMNS * u);
}

/* Adds rows j to j + 3 to the thread's sums, as kv_paged_values_weigh. */
template <int HEADS>
KV_DEVICE void kv_paged_weigh_four(const kv_paged_values &x,
                                   const kv_paged_own &c, int j,
                                   const float *weight, float *a) {
  constexpr int COLUMNS = kv_paged_columns(HEADS);
  float v[4 * COLUMNS];
  kv_paged_four_codes<COLUMNS>(x, c, j, v);
  KV_UNROLL
  for (int e = 0; e < COLUMNS; e++) {
    const float *range = e ? c.far : c.near;
    kv_quad step = *(const kv_quad *)&range[j];
    kv_quad least = *(const kv_quad *)&range[j + KV_GPU_CHUNK];
    KV_UNROLL
    for (int u = 0; u < 4; u++)
      v[COLUMNS * u + e] = kv_fma(v[COLUMNS * u + e], step.x[u], least.x[u]);
  }
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) {
    kv_quad w = *(const kv_quad *)&weight[h * KV_GPU_CHUNK + j];
    KV_UNROLL
    for (int u = 0; u < 4 * COLUMNS; u++)
      a[COLUMNS * h + u % COLUMNS] =
          kv_fma(w.x[u / COLUMNS], v[u], a[COLUMNS * h + u % COLUMNS]);
  }
}

/* Adds the rows, in order, to the thread's sums a
 * [HEADS][kv_paged_columns(HEADS)] of its columns: `column`, and where they are
 * two, that half a row further. weight [HEADS][KV_GPU_CHUNK], shared. No
 * barrier. Unrolled by hand: ptxas makes sixteen turns of one where it may, and
 * takes 165 registers for them. */
template <int HEADS>
KV_DEVICE void kv_paged_values_weigh(const kv_gpu_paged &p,
                                     const kv_paged_values &x, int column,
                                     const float *weight, float *a) {
  constexpr int COLUMNS = kv_paged_columns(HEADS);
  kv_paged_own c = kv_paged_own_of(p, x, column);
  int j = 0;
  KV_ROLLED
  for (; j + 8 <= x.n; j += 8) {
    kv_paged_weigh_four<HEADS>(x, c, j, weight, a);
    kv_paged_weigh_four<HEADS>(x, c, j + 4, weight, a);
  }
  KV_ROLLED
  for (; j < x.n; j++) {
    float v[COLUMNS];
    kv_paged_codes<COLUMNS>(x, j, kv_paged_column_in(c, x.slot[j] & 1), v);
    KV_UNROLL
    for (int e = 0; e < COLUMNS; e++) {
      const float *range = e ? c.far : c.near;
      v[e] = kv_fma(v[e], range[j], range[j + KV_GPU_CHUNK]);
    }
    KV_UNROLL
    for (int u = 0; u < HEADS * COLUMNS; u++)
      a[u] =
          kv_fma(weight[u / COLUMNS * KV_GPU_CHUNK + j], v[u % COLUMNS], a[u]);
  }
}

enum { CHUNK = KV_BLOCK }; /* arithmetic 3: 128 */
constexpr int MOST = 8;    /* heads that share a pass over V */

/* --- values --------------------------------------------------------------- */

/* The thread's logits of a head; past the end 0. */
static __device__ kv_quad logits_of(const kv_gpu_layer &l, const kv_hand &a,
                                    int head) {
  const float *logit = l.s + (size_t)head * (size_t)l.stride + a.c * CHUNK;
  int j = KV_WEIGH_EACH * (kv_thread() % KV_WARP);
  kv_quad s = {};
  if (j + KV_WEIGH_EACH <= a.n) return *(const kv_quad *)&logit[j];
  KV_UNROLL
  for (int u = 0; u < KV_WEIGH_EACH; u++)
    if (j + u < a.n) s.x[u] = logit[j + u];
  return s;
}

/* Records as the lane's first what is not finite of the thread's logits. */
static __device__ void report(const kv_gpu_layer &l, const kv_hand &a, int head,
                              const kv_quad &s) {
  unsigned long long h = (unsigned)(head - l.lane[a.lane].first_head);
  int entry = a.c * CHUNK + KV_WEIGH_EACH * (kv_thread() % KV_WARP);
  KV_UNROLL
  for (int u = 0; u < KV_WEIGH_EACH; u++)
    if (!kv_finite(s.x[u]))
      atomicMin((unsigned long long *)&l.bad[a.lane],
                h << 32 | (unsigned)(entry + u));
}

/* Of every head, a warp for each; p [HEADS][CHUNK] may be read after a barrier.
 * Heads past the last repeat the last one. */
template <int HEADS>
static __device__ void weights(const kv_gpu_layer &l, const kv_hand &a,
                               float *p) {
  for (int h = kv_thread() / KV_WARP; h < HEADS; h += KV_WARPS) {
    int head = a.first + (h < a.count ? h : a.count - 1);
    kv_quad s = logits_of(l, a, head);
    kv_chunk_weigh(l, {head, a.c, a.n, h < a.count}, s, p + h * CHUNK,
                   [&] { report(l, a, head, s); });
  }
}

static __device__ float *part_of(const kv_gpu_layer &l, const kv_hand &a,
                                 int h) {
  size_t chunk = (size_t)(a.first + h) * (size_t)l.chunks + (size_t)a.c;
  return l.part + chunk * (size_t)l.shape.d_v;
}

/* a_c of all heads. */
template <int HEADS>
static __device__ void
sum_columns(const kv_gpu_layer &l, const kv_hand &a, const kv_gpu_paged &p,
            const kv_paged_values &x, const float *weight) {
  constexpr int COLUMNS = kv_paged_columns(HEADS);
  int each = x.width / COLUMNS;
  KV_ROLLED
  for (int column = kv_thread(); column < each; column += KV_BLOCK) {
    float sum[COLUMNS * HEADS];
    KV_UNROLL
    for (int u = 0; u < COLUMNS * HEADS; u++) sum[u] = 0;
    kv_paged_values_weigh<HEADS>(p, x, column, weight, sum);
    KV_UNROLL
    for (int u = 0; u < COLUMNS * HEADS; u++)
      if (u / COLUMNS < a.count)
        part_of(l, a, u / COLUMNS)[column + u % COLUMNS * each] = sum[u];
  }
}

/* The same, element by element. */
template <int HEADS>
static __device__ void sum_slowly(const kv_gpu_layer &l, const kv_hand &a,
                                  const float *weight) {
  const kv_gpu_lane *lane = &l.lane[a.lane];
  KV_ROLLED
  for (int x = kv_thread(); x < l.shape.d_v; x += KV_BLOCK) {
    float sum[HEADS];
    KV_UNROLL
    for (int h = 0; h < HEADS; h++) sum[h] = 0;
    KV_ROLLED
    for (int j = 0; j < a.n; j++) {
      float v = kv_gpu_value(l, lane, a.c * CHUNK + j, x);
      KV_UNROLL
      for (int h = 0; h < HEADS; h++)
        sum[h] = kv_fma(weight[h * CHUNK + j], v, sum[h]);
    }
    KV_UNROLL
    for (int h = 0; h < HEADS; h++)
      if (h < a.count) part_of(l, a, h)[x] = sum[h];
  }
}

/* Where the values of the chunk's entries are; whether all are coded. */
static __device__ bool find_values(const kv_gpu_layer &l, const kv_gpu_paged &p,
                                   const kv_hand &a, int32_t *slot) {
  int j = kv_thread(), tier = 0;
  if (j < a.n) {
    kv_cell_ref ref = l.lane[a.lane].v[a.c * CHUNK + j];
    tier = kv_paged_tier_of(p, ref, KV_SIDE_V);
    slot[j] = kv_paged_slot(tier, ref.block);
  }
  return !kv_block_any(tier < 0);
}

template <int HEADS>
static __global__ void paged_chunks(const __grid_constant__ kv_gpu_layer l,
                                    const __grid_constant__ kv_gpu_paged p) {
  KV_SHARED(kv_quad, weight, HEADS * CHUNK / 4);
  KV_SHARED(kv_piece, slots, CHUNK / 4);
  KV_SHARED(const char *, row, CHUNK);
  KV_SHARED(kv_piece, code, CHUNK * KV_PAGED_PIECES);
  KV_SHARED(kv_quad, range, KV_PAGED_RANGES * 2 * CHUNK / 4);
  const kv_hand a = kv_hand_take<HEADS>(l, l.lane[blockIdx.y].n);
  int32_t *slot = (int32_t *)slots;
  int j = kv_thread();
  if (a.n <= 0) return;
  kv_paged_values x;
  bool suits = kv_paged_values_suit(
      p, a.n, {0, 0, 0, 0, slot, code, (float *)range}, &x);
  suits &= find_values(l, p, a, slot);
  if (suits && j < a.n) row[j] = kv_paged_values_row(p, a.lane, x);
  __syncthreads();
  if (suits) kv_paged_values_fetch(p, row, x);
  weights<HEADS>(l, a, (float *)weight);
  kv_async_wait<0>();
  __syncthreads();
  if (suits)
    sum_columns<HEADS>(l, a, p, x, (const float *)weight);
  else
    sum_slowly<HEADS>(l, a, (const float *)weight);
}

/* --- starts --------------------------------------------------------------- */

template <int EACH>
static void start(void *stream, const kv_gpu_layer *l, const kv_gpu_paged *p) {
  int heads = l->shape.n_heads / l->lanes;
  dim3 grid((unsigned)l->chunks, (unsigned)l->lanes,
            (unsigned)((heads + EACH - 1) / EACH));
  KV_LAUNCH(stream, (paged_chunks<EACH>), grid, KV_BLOCK, *l, *p);
}

extern "C" void kv_gpu_start_attend_paged(void *stream, const kv_gpu_layer *l,
                                          const kv_gpu_paged *p) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *,
                                    const kv_gpu_paged *) = {
      start<1>, start<2>, start<3>, start<4>,
      start<5>, start<6>, start<7>, start<8>};
  int heads = l->shape.n_heads / l->lanes, parts = (heads + MOST - 1) / MOST;
  kv_gpu_start_paged_logits(stream, l, p);
  starts[(heads + parts - 1) / parts - 1](stream, l, p);
  kv_gpu_start_join(stream, l);
}
