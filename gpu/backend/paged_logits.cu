/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits of a decode step over lanes whose coded rows are in unified pages
 * (gpu/backend/paged.cu lists what may be computed in page order). Walks the
 * high pages, then the low ones, a block for each 256 tokens of one tier, then
 * the entries that are not coded yet. Each logit is written to the place of its
 * entry. kv_gpu_paged.where gives a token's entry; it is remade at each step,
 * because entries move and tokens do not. A number without an entry, whose
 * token was dropped, is read but not written.
 */
#include "gpu/lane/keys_rows.cuh"
#include "gpu/lane/logits.cuh"
#include "gpu/shared/device.h"

constexpr int MOST = KV_LOGITS_MOST, TILE = KV_ROW_TILE;

/* --- the walk ------------------------------------------------------------- */

/* Tokens `first` on of a tier, n of them. */
typedef struct tile {
  int tier, first, n;
} tile;

static __device__ int tiles_of(int n) { return (n + TILE - 1) / TILE; }

/* Numbers of a tier that are in use, or were: some are free. */
static __device__ int numbers_of(const kv_gpu_paged &p, const kv_gpu_lane *lane,
                                 int tier) {
  if (!p.tier[tier].tokens) return 0;
  return lane->k_slab[p.tier[tier].side[KV_SIDE_K].slab].used;
}

/* Tile `number` of a lane's walk: the high tier's come first. n 0: there is
 * none. */
static __device__ tile tile_of(const kv_gpu_paged &p, const kv_gpu_lane *lane,
                               int number) {
  int high = numbers_of(p, lane, KV_HIGH), tier = number >= tiles_of(high);
  int first = (number - (tier ? tiles_of(high) : 0)) * TILE;
  int left = (tier ? numbers_of(p, lane, KV_LOW) : high) - first;
  return {tier, first, left < TILE ? left : TILE};
}

static __device__ int32_t *where_of(const kv_gpu_layer &l,
                                    const kv_gpu_paged &p, int lane, int tier) {
  return p.where + ((int64_t)lane * KV_TIERS + tier) * l.stride;
}

/* No number is an entry's; and then those are that are. */
static __global__ void forget_entries(const __grid_constant__ kv_gpu_layer l,
                                      const __grid_constant__ kv_gpu_paged p) {
  int lane = (int)blockIdx.y, x = (int)blockIdx.x * KV_BLOCK + kv_thread();
  for (int t = 0; t < KV_TIERS; t++)
    if (x < numbers_of(p, &l.lane[lane], t)) where_of(l, p, lane, t)[x] = -1;
}

static __global__ void find_entries(const __grid_constant__ kv_gpu_layer l,
                                    const __grid_constant__ kv_gpu_paged p) {
  int which = (int)blockIdx.y, j = (int)blockIdx.x * KV_BLOCK + kv_thread();
  const kv_gpu_lane *lane = &l.lane[which];
  if (j >= lane->n) return;
  int tier = kv_paged_tier_of(p, lane->k[j], KV_SIDE_K);
  if (tier >= 0) where_of(l, p, which, tier)[lane->k[j].block] = j;
}

/* --- a tile of a tier ----------------------------------------------------- */

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

/* Starts the copies of the tile's codes, and puts ranges behind them. A warp
 * has the same bytes of a page whoever of it has which; each 8 threads take a
 * piece of 8 rows, which lie side by side in banks of shared memory. */
static __device__ void fetch_keys(const kv_gpu_paged &p, const tile &t,
                                  const kv_row_keys &x) {
  KV_SHARED(const char *, row, TILE);
  const kv_gpu_paged_side &s = p.tier[t.tier].side[KV_SIDE_K];
  int lane = (int)blockIdx.y;
  for (int j = kv_thread(); j < t.n; j += KV_BLOCK) {
    kv_gpu_block b = kv_paged_block(p, lane, t.tier, t.first + j, KV_SIDE_K);
    row[j] = b.codes;
    *(kv_quad *)&x.code[x.full * TILE + j] = ranges_of(s, b.metadata);
  }
  __syncthreads();
  int eights = (t.n + 7) / 8, each = 8 * x.full;
  for (int at = kv_thread(); at < eights * each; at += KV_BLOCK) {
    int eight = at / each, own = at - eight * each;
    int j = 8 * eight + own % 8, piece = own / 8;
    if (j < t.n) kv_async_16(&x.code[piece * TILE + j], row[j] + piece * 16);
  }
  kv_async_commit();
}

/* The chain of every query with the thread's entry, element by element. */
template <int QUERIES>
static __device__ void chain_slowly(const kv_gpu_layer &l,
                                    const kv_gpu_lane *lane, int entry, int j,
                                    int count, float *acc) {
  kv_gpu_row r = kv_gpu_key_row(l, lane, entry);
  KV_ROLLED
  for (int x = 0; x < l.shape.d; x++) {
    float key = kv_gpu_element(r, x);
    KV_UNROLL
    for (int q = 0; q < QUERIES; q++) {
      size_t at = kv_logits_place(l, lane, j + (q < count ? q : count - 1));
      acc[q] = kv_fma(l.q[at * (size_t)l.shape.d + (size_t)x], key, acc[q]);
    }
  }
}

/* Entries of a block of logits, and what its threads have of them. */
template <int QUERIES>
static __device__ void slowly(const kv_gpu_layer &l, const kv_logits_task &a,
                              const kv_logits_own<2> &own) {
  kv_logits_passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    KV_UNROLL
    for (int e = 0; e < 2; e++)
      if (own.mine[e])
        chain_slowly<QUERIES>(l, a.lane, own.first + e * own.step, j, count,
                              acc + e * QUERIES);
  });
}

/* A tile of entries: those that are not coded yet. */
template <int QUERIES>
static __device__ void uncoded_logits(const kv_gpu_layer &l,
                                      const kv_gpu_paged &p, int number) {
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  kv_logits_own<2> own = {
      number * TILE + kv_thread(), KV_BLOCK, {false, false}, {}};
  KV_UNROLL
  for (int e = 0; e < 2; e++) {
    int i = own.first + e * KV_BLOCK;
    if (i < lane->n)
      own.mine[e] = kv_paged_tier_of(p, lane->k[i], KV_SIDE_K) < 0;
  }
  if (kv_block_any(own.mine[0] || own.mine[1]))
    slowly<QUERIES>(l, {lane, 0, lane->queries, false}, own);
}

/* Which entries the thread's two tokens of a tile are. */
static __device__ kv_logits_own<2>
entries_of(const kv_gpu_layer &l, const kv_gpu_paged &p, const tile &t) {
  const int32_t *where = where_of(l, p, (int)blockIdx.y, t.tier) + t.first;
  int32_t i[2] = {-1, -1};
  KV_UNROLL
  for (int e = 0; e < 2; e++)
    if (kv_thread() + e * KV_BLOCK < t.n)
      i[e] = where[kv_thread() + e * KV_BLOCK];
  return {i[0], i[1] - i[0], {i[0] >= 0, i[1] >= 0}, {}};
}

template <int QUERIES>
static __global__ void paged_logits(const __grid_constant__ kv_gpu_layer l,
                                    const __grid_constant__ kv_gpu_paged p,
                                    int walk) {
  KV_SHARED(kv_piece, key, KV_ROW_PIECES * TILE);
  KV_SHARED(kv_quad, query, QUERIES * KV_ROW_WIDTH / 4);
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  int number = (int)blockIdx.x;
  if (number >= walk) {
    uncoded_logits<QUERIES>(l, p, number - walk);
    return;
  }
  const tile t = tile_of(p, lane, number);
  if (t.n <= 0) return;
  const kv_gpu_paged_side &s = p.tier[t.tier].side[KV_SIDE_K];
  kv_logits_task a = {lane, 0, lane->queries, false};
  kv_logits_own<2> own = entries_of(l, p, t);
  if (!keys_suit(p, s)) {
    slowly<QUERIES>(l, a, own);
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

/* --- starts --------------------------------------------------------------- */

template <int EACH>
static void start(void *stream, const kv_gpu_layer *l, const kv_gpu_paged *p) {
  unsigned chunks = (unsigned)l->chunks, lanes = (unsigned)l->lanes;
  /* A tile is two chunks; either tier has numbers for all tokens at most, and
   * may end in a part of one. */
  unsigned walk = chunks + 2, uncoded = chunks / 2 + 1;
  KV_LAUNCH(stream, (paged_logits<EACH>), dim3(walk + uncoded, lanes), KV_BLOCK,
            *l, *p, (int)walk);
}

extern "C" void kv_gpu_start_paged_logits(void *stream, const kv_gpu_layer *l,
                                          const kv_gpu_paged *p) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *,
                                    const kv_gpu_paged *) = {
      start<1>, start<2>, start<3>, start<4>,
      start<5>, start<6>, start<7>, start<8>};
  dim3 grid((unsigned)l->chunks, (unsigned)l->lanes);
  KV_LAUNCH(stream, forget_entries, grid, KV_BLOCK, *l, *p);
  KV_LAUNCH(stream, find_entries, grid, KV_BLOCK, *l, *p);
  starts[kv_logits_queries(l, 1) - 1](stream, l, p);
  kv_gpu_start_cap(stream, l, 1, 0);
}
