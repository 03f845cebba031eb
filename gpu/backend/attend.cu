/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over the views of a decode step: arithmetic 3. A block computes one
 * chunk of 128 entries, in the order of the view, for the heads that see the
 * same entries in it: V is read once for up to 8 of them; more are divided
 * evenly (13 heads into 7 and 6). If a method has views of its own, a block
 * checks whether the heads agree about its chunk, and reads V once for each if
 * not. Then join.cu joins the chunks in order.
 *
 * PLAIN: every entry is an unchanged row of its lane's pool. Otherwise a chunk
 * whose rows are all coded alike is decoded on the way; of
 * any other, coded rows are decoded into their stage and the rest copied.
 */
#include "gpu/block/block.cuh"
#include "gpu/lane/values.cuh"
#include "gpu/lane/weigh.cuh"
#include "gpu/shared/device.h"
#include "ref/ground/arith.h"

/* --- values that are all coded alike -------------------------------------- */

/* Weighted sum of the values of a chunk whose rows are all coded alike: blocks
 * of one row come as they are by asynchronous copies, their ranges become
 * floats in shared memory once, and each thread decodes a column, whose bits
 * stand at the same place of a byte in every row. A thread has a chain over the
 * entries for every head. A column here is an element of a row.
 *
 * For every rule of the format token; a chunk that does not suit is
 * left to gpu/lane/values.cuh. Order, by all threads of the block together:
 * kv_coded_values_suit, kv_coded_values_fetch, kv_async_wait and a barrier,
 * kv_coded_values_widen, a barrier, kv_coded_values_weigh. */

/* Pieces of 16 bytes that a chunk's room has: for each row 128 bytes of codes,
 * its metadata, and two ranges as floats. */
constexpr int KV_CODED_VALUES = KV_GPU_CHUNK * (9 + 1);

/* A chunk that suits; each thread has a copy. */
typedef struct kv_coded_values {
  kv_minmax how;
  int width, n;         /* columns, at most KV_BLOCK; rows */
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
  *x = {how,
        width,
        n,
        metadata,
        ranges,
        pieces,
        (kv_piece *)room,
        (float *)(room + KV_GPU_CHUNK * 16 * pieces)};
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
    kv_gpu_range r = kv_gpu_range_of(x.how, x.ranges, g, from);
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

enum { CHUNK = KV_BLOCK }; /* arithmetic 3: 128 */
constexpr int MOST = 8;    /* heads that share a pass over V */

/* --- weights ------------------------------------------------------------ */

/* A chunk to compute for heads first .. first + count - 1, which see the same n
 * entries in it. */
typedef struct hand {
  const kv_gpu_lane *lane;
  int which; /* the lane's number */
  int first, count, c, n;
  bool apart; /* heads have views of their own */
} hand;

constexpr int EACH = KV_WEIGH_EACH;

/* Where heads have views of their own; otherwise a place is the entry's. */
static __device__ int place_of(const kv_gpu_layer &l, int head, int c, int j) {
  return l.place[(size_t)head * (size_t)l.stride + (size_t)(c * CHUNK + j)];
}

/* The entry at place j of the chunk. */
static __device__ int entry_of(const kv_gpu_layer &l, const hand &a, int j) {
  return a.apart ? place_of(l, a.first, a.c, j) : a.c * CHUNK + j;
}

/* Records as the lane's first what is not finite of its logits s. */
static __device__ void report_logits(const kv_gpu_layer &l, const hand &a,
                                     int head, const float *s, int j) {
  int end = j + EACH < a.n ? j + EACH : a.n;
  for (; j < end; j++) {
    int entry = entry_of(l, a, j);
    if (kv_finite(s[entry])) continue;
    unsigned long long h = (unsigned)(head - a.lane->first_head);
    atomicMin((unsigned long long *)&l.bad[a.which], h << 32 | (unsigned)entry);
  }
}

/* The thread's logits of a head, s by entry; past the end 0. */
static __device__ kv_quad logits_of(const kv_gpu_layer &l, const hand &a,
                                    const float *s, int j) {
  kv_quad x = {};
  if (!a.apart && j + EACH <= a.n) return *(const kv_quad *)&s[a.c * CHUNK + j];
  KV_UNROLL
  for (int u = 0; u < EACH; u++)
    if (j + u < a.n) x.x[u] = s[entry_of(l, a, j + u)];
  return x;
}

/* Computes m_c, l_c and p_j of head number h of the hand, by one warp. */
static __device__ void weigh_head(const kv_gpu_layer &l, const hand &a, int h,
                                  float *p) {
  int j = EACH * (kv_thread() % KV_WARP);
  int head = a.first + (h < a.count ? h : a.count - 1);
  const float *logit = l.s + (size_t)head * (size_t)l.stride;
  kv_quad s = logits_of(l, a, logit, j);
  kv_chunk_weigh(l, {head, a.c, a.n, h < a.count}, s, p,
                 [&] { report_logits(l, a, head, logit, j); });
}

/* The same of every head, a warp for each, and the next one for those beyond;
 * p [HEADS][CHUNK] may be read after a barrier. Heads past the last repeat the
 * last one. */
template <int HEADS>
static __device__ void weights(const kv_gpu_layer &l, const hand &a, float *p) {
  int warp = kv_thread() / KV_WARP;
  KV_UNROLL
  for (int h = 0; h < HEADS; h += KV_WARPS)
    if (HEADS - h >= KV_WARPS || warp < HEADS - h)
      weigh_head(l, a, h + warp, p + (h + warp) * CHUNK);
}

/* --- chunks ------------------------------------------------------------- */

/* Computes a_c of every head; the first stages are loaded while the weights are
 * computed. */
template <int HEADS, bool PLAIN>
static __device__ void sums(const kv_gpu_layer &l, const hand &a,
                            const kv_gpu_row *row, kv_piece *stage, float *p) {
  kv_values_sum<HEADS, PLAIN>(l, a.first, a.count, a.c, a.n, row, stage, p,
                              [&] { weights<HEADS>(l, a, p); });
}

/* The same, if the rows are all coded alike and suit; whether they did. */
template <int HEADS>
static __device__ bool coded_sums(const kv_gpu_layer &l, const hand &a,
                                  const kv_gpu_row *row, kv_piece *stage,
                                  float *p) {
  constexpr int ROOM = KV_CODED_VALUES * 16;
  kv_coded_values x;
  if (!kv_coded_values_suit(a.n, row, (char *)stage, ROOM, &x)) return false;
  float sum[HEADS];
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) sum[h] = 0;
  kv_coded_values_fetch(row, x);
  weights<HEADS>(l, a, p);
  kv_async_wait<0>();
  __syncthreads();
  kv_coded_values_widen(x);
  __syncthreads();
  if (kv_rule_floats(x.how.rule))
    kv_coded_values_weigh<HEADS, true>(x, p, sum);
  else
    kv_coded_values_weigh<HEADS, false>(x, p, sum);
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) {
    size_t chunk = (size_t)(a.first + h) * (size_t)l.chunks + (size_t)a.c;
    if (h < a.count && kv_thread() < x.width)
      l.part[chunk * (size_t)x.width + (size_t)kv_thread()] = sum[h];
  }
  return true;
}

/* Entries of chunk c of a head. */
static __device__ int size_of(const kv_gpu_layer &l, int head, int c) {
  int n = l.entries[head] - c * CHUNK;
  return n < 0 ? 0 : n < CHUNK ? n : CHUNK;
}

/* True if heads first .. first + count - 1 see the same entries in chunk c. */
static __device__ bool is_shared(const kv_gpu_layer &l, int first, int count,
                                 int c) {
  int n = size_of(l, first, c), j = kv_thread();
  bool other = false;
  for (int h = first + 1; h < first + count; h++) {
    if (size_of(l, h, c) != n) return false;
    if (j < n) other |= place_of(l, h, c, j) != place_of(l, first, c, j);
  }
  return !kv_block_any(other);
}

/* The heads that this block computes; count 0: another block does. `apart`:
 * heads have views of their own, and a block each; if up to HEADS of them see
 * the same, the first one's block computes all. */
template <int HEADS>
static __device__ hand take_heads(const kv_gpu_layer &l, bool apart) {
  int c = (int)blockIdx.x, which = (int)blockIdx.y, z = (int)blockIdx.z;
  const kv_gpu_lane *lane = &l.lane[which];
  int heads = lane->queries, base = lane->first_head;
  int h = apart ? z : z * HEADS, first = h / HEADS * HEADS;
  int count = heads - first < HEADS ? heads - first : HEADS;
  if (apart && HEADS > 1) {
    if (!is_shared(l, base + first, count, c))
      count = 1;
    else if (h != first)
      count = 0;
  }
  hand a = {lane, which, base + h, count, c, size_of(l, base + h, c), apart};
  return a;
}

template <int HEADS, bool PLAIN>
static __global__ void chunks(const __grid_constant__ kv_gpu_layer l,
                              bool apart) {
  KV_SHARED(kv_quad, weight, HEADS * CHUNK / 4);
  KV_SHARED(kv_gpu_row, row, CHUNK);
  constexpr int STAGES = KV_VALUE_STAGES * KV_VALUE_PIECES;
  static_assert(KV_CODED_VALUES >= STAGES, "the stages fit where codes do");
  KV_SHARED(kv_piece, stage, PLAIN ? STAGES : KV_CODED_VALUES);
  hand a = take_heads<HEADS>(l, apart);
  if (a.n == 0 || a.count == 0) return;
  int j = kv_thread(), entry = a.c * CHUNK + j;
  if (j < a.n) {
    if (apart) entry = place_of(l, a.first, a.c, j);
    row[j] = PLAIN ? kv_gpu_raw_row(l, a.lane->v_raw, a.lane->v[entry])
                   : kv_gpu_attended_row(l, a.lane, entry);
  }
  __syncthreads();
  float *p = (float *)weight;
  if (!PLAIN && HEADS > 1 && a.count == 1) {
    if (coded_sums<1>(l, a, row, stage, p)) return;
  } else if (!PLAIN) {
    if (coded_sums<HEADS>(l, a, row, stage, p)) return;
  }
  if (HEADS > 1 && a.count == 1)
    sums<1, PLAIN>(l, a, row, stage, p);
  else
    sums<HEADS, PLAIN>(l, a, row, stage, p);
}

/* --- starts ------------------------------------------------------------- */

template <int HEADS>
static void start_chunks(void *stream, const kv_gpu_layer *l, bool apart) {
  int heads = l->shape.n_heads / l->lanes;
  int blocks = apart ? heads : (heads + HEADS - 1) / HEADS;
  dim3 grid((unsigned)l->chunks, (unsigned)l->lanes, (unsigned)blocks);
  bool coded = l->needs.merges;
  for (int i = 0; i < l->needs.codings; i++)
    coded |= kv_codes_values(&l->needs.coding[i]);
  if (!coded)
    KV_LAUNCH(stream, (chunks<HEADS, true>), grid, KV_BLOCK, *l, apart);
  else
    KV_LAUNCH(stream, (chunks<HEADS, false>), grid, KV_BLOCK, *l, apart);
}

extern "C" void kv_gpu_start_attend(void *stream, const kv_gpu_layer *l,
                                    int masked) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *, bool) = {
      start_chunks<1>, start_chunks<2>, start_chunks<3>, start_chunks<4>,
      start_chunks<5>, start_chunks<6>, start_chunks<7>, start_chunks<8>};
  int heads = l->shape.n_heads / l->lanes;
  int parts = (heads + MOST - 1) / MOST, each = (heads + parts - 1) / parts;
  starts[each - 1](stream, l, masked != 0);
  kv_gpu_start_join(stream, l);
}
