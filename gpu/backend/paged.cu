/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over lanes whose rows lie in unified pages: the output, to the bit,
 * of attention over the same lanes in slots. Arithmetic 1 and 3 say what may
 * follow the pages and what may not:
 *
 *   a logit     one chain along d of one entry: any order of entries. The high
 *               pages are walked, and then the low ones; logits lie as pages do
 *               in the table, high ones from the left, low ones from the right
 *   m_c, p, l_c a chunk's entries are 128 neighbours of the lane; among them
 *               the order changes nothing
 *   a_c         a chain over the chunk's entries in the order of the lane
 *   join        in the order of chunks
 *
 * So logits are computed by pages, a tile of one tier a block and 256 tokens;
 * a block of values has a chunk of the lane, finds its entries by
 * kv_gpu_paged.order, and both tiers stand in it as they do in the lane. Reads
 * codes and metadata once for up to 8 heads of a lane, and 4 bytes a token of
 * order; what it computes for a head is 4 bytes a token, written and read.
 *
 * Every entry of a lane is in a page, and every head sees all of them. The
 * layer's fields are those of attend.cu, but that logits do not stand by entry:
 * evidence and hooks cannot read them.
 */
#include "gpu/lane/keys_rows.cuh"
#include "gpu/lane/logits.cuh"
#include "gpu/lane/values_paged.cuh"
#include "gpu/lane/weigh.cuh"
#include "gpu/shared/device.h"

enum { CHUNK = KV_BLOCK }; /* arithmetic 3: 128 */
constexpr int MOST = 8, TILE = KV_ROW_TILE;

/* --- logits --------------------------------------------------------------- */

/* Tokens `first` on of a tier, n of them. */
typedef struct tile {
  int tier, first, n;
} tile;

/* Tile `number` of a lane's walk: the high tier's come first. n 0: there is
 * none. */
static __device__ tile tile_of(const kv_gpu_paged &p, int lane, int number) {
  kv_pages_count all = p.store[lane];
  int high = (all.of[KV_HIGH] + TILE - 1) / TILE, tier = number >= high;
  int first = (number - (tier ? high : 0)) * TILE;
  int left = (tier ? all.of[KV_LOW] : all.of[KV_HIGH]) - first;
  return {tier, first, left < TILE ? left : TILE};
}

static __device__ bool keys_suit(const kv_gpu_paged &p,
                                 const kv_gpu_paged_side &s) {
  return s.codes * 8 == s.width * s.how.bits && s.codes % 16 == 0 &&
         s.codes / 16 < KV_ROW_PIECES && s.width <= KV_ROW_WIDTH &&
         s.width % 4 == 0 && s.ranges <= KV_ROW_RANGES &&
         (s.ranges == 1 || s.how.group % 16 == 0) && p.page % 16 == 0;
}

/* Ranges of a row: of both, scale and least. */
static __device__ kv_quad ranges_of(const kv_gpu_paged_side &s,
                                    const char *meta) {
  kv_quad to = {};
  KV_UNROLL
  for (int g = 0; g < KV_ROW_RANGES; g++) {
    if (g >= s.ranges) continue;
    kv_gpu_range by = kv_paged_range(s, meta, g);
    to.x[2 * g] = by.scale;
    to.x[2 * g + 1] = by.least;
  }
  return to;
}

/* Starts the copies of the tile's codes, and puts ranges behind them. */
static __device__ void fetch_keys(const kv_gpu_paged &p, const tile &t,
                                  const kv_row_keys &x) {
  KV_SHARED(const char *, row, TILE);
  const kv_gpu_paged_side &s = p.tier[t.tier].side[KV_SIDE_K];
  int lane = (int)blockIdx.y;
  for (int j = kv_thread(); j < t.n; j += KV_BLOCK) {
    kv_paged_row r = kv_paged_row_of(p, lane, t.tier, t.first + j, KV_SIDE_K);
    row[j] = r.codes;
    *(kv_quad *)&x.code[x.full * TILE + j] = ranges_of(s, r.meta);
  }
  __syncthreads();
  for (int at = kv_thread(); at < t.n * x.full; at += KV_BLOCK) {
    int j = at / x.full, piece = at - j * x.full;
    kv_async_16(&x.code[piece * TILE + j], row[j] + piece * 16);
  }
  kv_async_commit();
}

/* The chain of every query with token `number`, element by element. */
template <int QUERIES>
static __device__ void chain_slowly(const kv_gpu_layer &l,
                                    const kv_gpu_paged &p, const tile &t,
                                    int number, int j, int count, float *acc) {
  const kv_gpu_paged_side &s = p.tier[t.tier].side[KV_SIDE_K];
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  kv_paged_row r =
      kv_paged_row_of(p, (int)blockIdx.y, t.tier, number, KV_SIDE_K);
  KV_ROLLED
  for (int x = 0; x < s.width; x++) {
    float key = kv_paged_element(s, r, x);
    KV_UNROLL
    for (int q = 0; q < QUERIES; q++) {
      size_t at = kv_logits_place(l, lane, j + (q < count ? q : count - 1));
      acc[q] = kv_fma(l.q[at * (size_t)l.shape.d + (size_t)x], key, acc[q]);
    }
  }
}

template <int QUERIES>
static __global__ void paged_logits(const __grid_constant__ kv_gpu_layer l,
                                    const __grid_constant__ kv_gpu_paged p) {
  KV_SHARED(kv_piece, key, KV_ROW_PIECES * TILE);
  KV_SHARED(kv_quad, query, QUERIES * KV_ROW_WIDTH / 4);
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  const tile t = tile_of(p, (int)blockIdx.y, (int)blockIdx.x);
  if (t.n <= 0) return;
  const kv_gpu_paged_side &s = p.tier[t.tier].side[KV_SIDE_K];
  kv_logits_task a = {lane, 0, lane->queries, false};
  kv_logits_own<2> own = {t.first + kv_thread(), KV_BLOCK, {}, {}};
  for (int e = 0; e < 2; e++) own.mine[e] = kv_thread() + e * KV_BLOCK < t.n;
  if (t.tier == KV_LOW)
    own = {l.stride - 1 - own.first, -KV_BLOCK, {own.mine[0], own.mine[1]}, {}};
  if (!keys_suit(p, s)) {
    kv_logits_passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
      KV_UNROLL
      for (int e = 0; e < 2; e++)
        if (own.mine[e])
          chain_slowly<QUERIES>(l, p, t, t.first + kv_thread() + e * KV_BLOCK,
                                j, count, acc + e * QUERIES);
    });
    return;
  }
  kv_row_keys x = {s.how, s.width, t.n, s.meta, s.ranges, s.codes / 16, key};
  fetch_keys(p, t, x);
  kv_logits_passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    kv_logits_fetch<QUERIES>(l, a, j, count, query);
    kv_async_wait<0>();
    __syncthreads();
    kv_row_chains<QUERIES, false>(x, query, acc);
    __syncthreads();
  });
}

/* --- values --------------------------------------------------------------- */

/* Chunk c of a lane for query heads first .. of the layer, n entries. */
typedef struct hand {
  int lane, first, count, c, n;
} hand;

template <int HEADS>
static __device__ hand take_heads(const kv_gpu_layer &l,
                                  const kv_gpu_paged &p) {
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  kv_pages_count all = p.store[blockIdx.y];
  int c = (int)blockIdx.x, first = (int)blockIdx.z * HEADS;
  int left = all.of[KV_HIGH] + all.of[KV_LOW] - c * CHUNK;
  int count = lane->queries - first;
  return {(int)blockIdx.y, lane->first_head + first,
          count < HEADS ? count : HEADS, c, left < CHUNK ? left : CHUNK};
}

/* The thread's logits of a head; past the end 0. */
static __device__ kv_quad logits_of(const kv_gpu_layer &l, const hand &a,
                                    int head, const int32_t *slot) {
  const float *logit = l.s + (size_t)head * (size_t)l.stride;
  int j = KV_WEIGH_EACH * (kv_thread() % KV_WARP);
  kv_quad s = {};
  KV_UNROLL
  for (int u = 0; u < KV_WEIGH_EACH; u++)
    if (j + u < a.n) s.x[u] = logit[kv_paged_place(l.stride, slot[j + u])];
  return s;
}

/* Records as the lane's first what is not finite of the thread's logits. */
static __device__ void report(const kv_gpu_layer &l, const hand &a, int head,
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
static __device__ void weights(const kv_gpu_layer &l, const hand &a,
                               const int32_t *slot, float *p) {
  for (int h = kv_thread() / KV_WARP; h < HEADS; h += KV_WARPS) {
    int head = a.first + (h < a.count ? h : a.count - 1);
    kv_quad s = logits_of(l, a, head, slot);
    kv_chunk_weigh(l, {head, a.c, a.n, h < a.count}, s, p + h * CHUNK,
                   [&] { report(l, a, head, s); });
  }
}

static __device__ float *part_of(const kv_gpu_layer &l, const hand &a, int h) {
  size_t chunk = (size_t)(a.first + h) * (size_t)l.chunks + (size_t)a.c;
  return l.part + chunk * (size_t)l.shape.d_v;
}

/* a_c of all heads. */
template <int HEADS>
static __device__ void
sum_columns(const kv_gpu_layer &l, const hand &a, const kv_gpu_paged &p,
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
static __device__ void sum_slowly(const kv_gpu_layer &l, const hand &a,
                                  const kv_gpu_paged &p, const int32_t *slot,
                                  const float *weight) {
  KV_ROLLED
  for (int x = kv_thread(); x < l.shape.d_v; x += KV_BLOCK) {
    float sum[HEADS];
    KV_UNROLL
    for (int h = 0; h < HEADS; h++) sum[h] = 0;
    KV_ROLLED
    for (int j = 0; j < a.n; j++) {
      int tier = kv_paged_tier(slot[j]);
      kv_paged_row r =
          kv_paged_row_of(p, a.lane, tier, kv_paged_number(slot[j]), KV_SIDE_V);
      float v = kv_paged_element(p.tier[tier].side[KV_SIDE_V], r, x);
      KV_UNROLL
      for (int h = 0; h < HEADS; h++)
        sum[h] = kv_fma(weight[h * CHUNK + j], v, sum[h]);
    }
    KV_UNROLL
    for (int h = 0; h < HEADS; h++)
      if (h < a.count) part_of(l, a, h)[x] = sum[h];
  }
}

template <int HEADS>
static __global__ void paged_chunks(const __grid_constant__ kv_gpu_layer l,
                                    const __grid_constant__ kv_gpu_paged p) {
  KV_SHARED(kv_quad, weight, HEADS * CHUNK / 4);
  KV_SHARED(kv_piece, slots, CHUNK / 4);
  KV_SHARED(const char *, row, CHUNK);
  KV_SHARED(kv_piece, code, CHUNK * KV_PAGED_PIECES);
  KV_SHARED(kv_quad, range, KV_PAGED_RANGES * 2 * CHUNK / 4);
  const hand a = take_heads<HEADS>(l, p);
  int32_t *slot = (int32_t *)slots;
  int j = kv_thread();
  if (a.n <= 0) return;
  if (j < a.n) slot[j] = p.order[(int64_t)a.lane * l.stride + a.c * CHUNK + j];
  kv_paged_values x;
  bool suits = kv_paged_values_suit(
      p, a.n, {0, 0, 0, 0, slot, code, (float *)range}, &x);
  if (suits && j < a.n) row[j] = kv_paged_values_row(p, a.lane, x);
  __syncthreads();
  if (suits) kv_paged_values_fetch(p, row, x);
  weights<HEADS>(l, a, slot, (float *)weight);
  kv_async_wait<0>();
  __syncthreads();
  if (suits)
    sum_columns<HEADS>(l, a, p, x, (const float *)weight);
  else
    sum_slowly<HEADS>(l, a, p, slot, (const float *)weight);
}

/* --- starts --------------------------------------------------------------- */

template <int EACH>
static void start(void *stream, const kv_gpu_layer *l, const kv_gpu_paged *p) {
  int heads = l->shape.n_heads / l->lanes;
  unsigned parts = (unsigned)((heads + EACH - 1) / EACH);
  unsigned chunks = (unsigned)l->chunks, lanes = (unsigned)l->lanes;
  /* A tile is two chunks; either tier may end in a part of one. */
  KV_LAUNCH(stream, (paged_logits<EACH>), dim3(chunks / 2 + 2, lanes), KV_BLOCK,
            *l, *p);
  KV_LAUNCH(stream, (paged_chunks<EACH>), dim3(chunks, lanes, parts), KV_BLOCK,
            *l, *p);
}

extern "C" void kv_gpu_start_paged(void *stream, const kv_gpu_layer *l,
                                   const kv_gpu_paged *p) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *,
                                    const kv_gpu_paged *) = {
      start<1>, start<2>, start<3>, start<4>,
      start<5>, start<6>, start<7>, start<8>};
  starts[kv_logits_queries(l, 1) - 1](stream, l, p);
  kv_gpu_start_join(stream, l);
}
