/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits of a tile of query rows against the entries of every lane: a thread
 * an entry, each (query, entry) pair one chain of fma over x ascending
 * (arithmetic 1). Keys and queries come through shared memory, some columns
 * at a time: while one stage is computed the next is on its way (async.h).
 * Keys are read once for up to 8 queries: those of a lane are shared out
 * evenly, 11 heads are 6 and 5.
 *
 * If the views are known already (masked), entries that no head of the lane
 * sees are neither read nor computed.
 *
 * PLAIN: every entry is an unchanged row of its lane's pool. Otherwise coded or
 * rotated rows are computed into their stage and the others copied.
 */
#include "gpu/block/async.h"
#include "gpu/lane/entry.cuh"
#include "gpu/shared/device.h"

/* An entry's part of a stage is 64 bytes, two sectors: 32 elements of 2 bytes
 * or 16 of any. A query's is as many floats. */
constexpr int MOST = 8, STAGES = 2, PIECES = 4, COLUMNS = 32;
constexpr int QUADS = COLUMNS / 4, KEYS = KV_BLOCK * PIECES;

/* An entry's key; at NULL: not needed. `turn`: its rotation. */
typedef struct key_row {
  kv_gpu_row row;
  const float *turn;
} key_row;

/* What one stage holds of the chains. */
typedef struct slab {
  int first, width; /* columns */
  kv_piece *key;    /* [KV_BLOCK][PIECES], see piece_at */
  kv_quad *query;   /* [QUERIES][QUADS] */
} slab;

/* --- keys --------------------------------------------------------------- */

/* Row of the rotation that takes entry i to place i
 * (ref/backend/attend_lane.c). */
static __device__ const float *turn_of(const kv_gpu_layer &l,
                                       const kv_gpu_lane *lane, int i) {
  const int32_t *p = l.position;
  int32_t id = (int32_t)lane->id[i];
  int32_t distance = p ? p[0] - p[id] + i : i - id;
  if (distance == 0) return nullptr;
  return l.rotation + (size_t)(distance + l.range) * (size_t)l.shape.d;
}

/* Element x of a rotated key, from both elements of its pair. */
static __device__ float turned(const kv_gpu_layer &l, const key_row &r, int x) {
  int half = l.shape.d / 2;
  int pair = l.interleaved ? x / 2 : x % half;
  int second = l.interleaved ? x % 2 : x / half;
  int a = l.interleaved ? 2 * pair : pair;
  int b = l.interleaved ? a + 1 : a + half;
  float s = r.turn[2 * pair], c = r.turn[2 * pair + 1];
  float x1 = kv_gpu_element(r.row, a), x2 = kv_gpu_element(r.row, b);
  return second ? kv_fma(x2, c, kv_mul(x1, s)) : kv_fma(-x2, s, kv_mul(x1, c));
}

template <bool PLAIN>
static __device__ key_row row_of(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                 int i, bool mine) {
  key_row r = {{nullptr, nullptr, KV_F32, 0, nullptr}, nullptr};
  if (!mine) return r;
  if (PLAIN) {
    r.row = kv_gpu_raw_row(l, lane->k_raw, lane->k[i]);
  } else {
    r.row = kv_gpu_key_row(l, lane, i);
    if (l.needs.reindex) r.turn = turn_of(l, lane, i);
  }
  return r;
}

static __device__ bool is_computed(const key_row &r) {
  return r.row.slab || r.turn;
}

/* Bytes an element has in its stage. */
static __device__ int size_of(const key_row &r) {
  return r.row.type == KV_F32 || is_computed(r) ? 4 : 2;
}

/* --- stages ------------------------------------------------------------- */

/* Where piece p of entry i lies: swizzled so that the threads of a quarter warp
 * use different banks when they write or read. */
static __device__ int piece_at(int i, int p) {
  return i * PIECES + (p ^ (i / 2 % PIECES));
}

/* Four elements of a key from x on, zeros past its end. */
static __device__ void compute_piece(const kv_gpu_layer &l, const key_row &r,
                                     int x, kv_piece *to) {
  kv_piece piece;
  KV_UNROLL
  for (int e = 0; e < 4; e++) {
    float k = 0;
    if (x + e < l.shape.d)
      k = r.turn ? turned(l, r, x + e) : kv_gpu_element(r.row, x + e);
    piece.word[e] = kv_bits(k);
  }
  *to = piece;
}

template <bool PLAIN>
static __device__ void fetch_keys(const kv_gpu_layer &l, const key_row *row,
                                  const slab &s) {
  KV_UNROLL
  for (int u = 0; u < PIECES; u++) {
    int at = u * KV_BLOCK + (int)threadIdx.x, p = at % PIECES;
    const key_row &r = row[at / PIECES];
    if (!r.row.at) continue;
    kv_piece *to = &s.key[piece_at(at / PIECES, p)];
    int size = PLAIN ? (l.shape.dtype == KV_F32 ? 4 : 2) : size_of(r);
    int left = s.width * size - p * 16;
    if (left <= 0) continue;
    if (!PLAIN && is_computed(r))
      compute_piece(l, r, s.first + 4 * p, to);
    else
      kv_async_piece(to, r.row.at + s.first * size + p * 16, left);
  }
}

/* `q`: the thread's query; threads without one use the last. */
template <int QUERIES>
static __device__ void fetch_queries(const float *q, const slab &s) {
  int at = (int)threadIdx.x, left = (s.width - at % QUADS * 4) * 4;
  if (at >= QUERIES * QUADS) return;
  kv_piece *to = (kv_piece *)&s.query[at];
  kv_async_piece(to, (const char *)(q + s.first + at % QUADS * 4), left);
}

/* --- chains ------------------------------------------------------------- */

/* Four links of the chains. */
template <int QUERIES>
static __device__ void link_four(const float *key, const kv_quad *query,
                                 float *acc) {
  KV_UNROLL
  for (int q = 0; q < QUERIES; q++) {
    kv_quad a = query[q * QUADS];
    KV_UNROLL
    for (int e = 0; e < 4; e++) acc[q] = kv_fma(a.x[e], key[e], acc[q]);
  }
}

/* Adds the columns of a stage to the chains of the thread's entry. Columns past
 * the width are zeros: a step of 0 * 0 can only change a chain from -0 to +0,
 * which the final + 0 of a logit does anyway. */
template <int QUERIES>
static __device__ void link(const slab &s, kv_dtype type, float *acc) {
  int thread = (int)threadIdx.x, each = type == KV_F32 ? 4 : 8;
  KV_UNROLL
  for (int p = 0; p < PIECES; p++) {
    if (p * each >= s.width) break;
    kv_piece piece = s.key[piece_at(thread, p)];
    const kv_quad *query = s.query + p * each / 4;
    float key[8];
    if (type == KV_F32) {
      for (int e = 0; e < 4; e++) key[e] = kv_float(piece.word[e]);
      link_four<QUERIES>(key, query, acc);
      continue;
    }
    KV_UNROLL
    for (int e = 0; e < 8; e++)
      key[e] = kv_gpu_widen(type, (uint16_t)(piece.word[e / 2] >> e % 2 * 16));
    link_four<QUERIES>(key, query, acc);
    link_four<QUERIES>(key + 4, query + 1, acc);
  }
}

/* The sums of QUERIES queries with the thread's entry. */
template <int QUERIES, bool PLAIN>
static __device__ void chains(const kv_gpu_layer &l, const key_row *row,
                              const float *q, kv_piece *key, kv_quad *query,
                              float *acc) {
  int thread = (int)threadIdx.x, d = l.shape.d;
  int columns = PLAIN && l.shape.dtype != KV_F32 ? COLUMNS : COLUMNS / 2;
  const key_row &own = row[thread];
  kv_dtype type = is_computed(own) ? KV_F32 : own.row.type;
  if (PLAIN) type = l.shape.dtype;
  auto stage = [&](int s) {
    int first = s * columns, left = d - first;
    slab now = {first, left < columns ? left : columns, key + s % STAGES * KEYS,
                query + s % STAGES * QUERIES * QUADS};
    return now;
  };
  auto fetch = [&](int s) {
    if (s * columns < d) {
      fetch_keys<PLAIN>(l, row, stage(s));
      fetch_queries<QUERIES>(q, stage(s));
    }
    kv_async_commit();
  };
  for (int s = 0; s < STAGES; s++) fetch(s);
  for (int s = 0; s * columns < d; s++) {
    kv_async_wait<STAGES - 1>();
    __syncthreads();
    if (own.row.at) link<QUERIES>(stage(s), type, acc);
    __syncthreads();
    fetch(s + STAGES);
  }
}

/* --- the kernel --------------------------------------------------------- */

/* Index of query j of the lane's tile among the layer's. */
static __device__ size_t place_of(const kv_gpu_layer &l,
                                  const kv_gpu_lane *lane, int j) {
  return (size_t)(j / lane->queries) * (size_t)l.shape.n_heads +
         (size_t)(lane->first_head + j % lane->queries);
}

/* Query of the thread in the pass of queries j.., for fetch_queries. */
static __device__ const float *
query_of(const kv_gpu_layer &l, const kv_gpu_lane *lane, int j, int count) {
  int q = (int)threadIdx.x / QUADS;
  size_t at = place_of(l, lane, j + (q < count ? q : count - 1));
  return l.q + at * (size_t)l.shape.d;
}

template <int QUERIES, bool PLAIN>
static __global__ void logits(const __grid_constant__ kv_gpu_layer l, int rows,
                              bool masked) {
  KV_SHARED(kv_piece, key, STAGES * KEYS);
  KV_SHARED(kv_quad, query, STAGES * QUERIES * QUADS);
  KV_SHARED(key_row, row, KV_BLOCK);
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  int base = (int)blockIdx.x * KV_BLOCK, i = base + (int)threadIdx.x;
  if (base >= lane->n) return;
  bool mine = i < lane->n && (!masked || kv_gpu_seen(l, lane, i));
  float bias = mine && !PLAIN ? kv_gpu_bias(l, lane, i) : 0.0f;
  row[threadIdx.x] = row_of<PLAIN>(l, lane, i, mine);
  __syncthreads();
  int all = rows * lane->queries;
  for (int j = 0; j < all; j += QUERIES) {
    int count = all - j < QUERIES ? all - j : QUERIES;
    float acc[QUERIES];
    for (int q = 0; q < QUERIES; q++) acc[q] = 0;
    chains<QUERIES, PLAIN>(l, row, query_of(l, lane, j, count), key, query,
                           acc);
    for (int q = 0; q < QUERIES; q++) {
      if (!mine || q >= count) continue;
      float s = kv_add(kv_mul(acc[q], l.shape.scale), 0.0f);
      if (!PLAIN && bias != 0) s = kv_add(kv_add(s, bias), 0.0f);
      l.s[place_of(l, lane, j + q) * (size_t)l.stride + (size_t)i] = s;
    }
  }
}

template <int QUERIES>
static void start(void *stream, const kv_gpu_layer *l, int rows, bool masked) {
  dim3 grid((unsigned)l->chunks, (unsigned)l->lanes);
  bool plain = !l->needs.merges && !l->needs.codings && !l->needs.reindex;
  if (plain)
    KV_LAUNCH(stream, (logits<QUERIES, true>), grid, KV_BLOCK, *l, rows,
              masked);
  else
    KV_LAUNCH(stream, (logits<QUERIES, false>), grid, KV_BLOCK, *l, rows,
              masked);
}

extern "C" void kv_gpu_start_logits(void *stream, const kv_gpu_layer *l,
                                    int rows, int masked) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *, int, bool) = {
      start<1>, start<2>, start<3>, start<4>,
      start<5>, start<6>, start<7>, start<8>};
  int all = rows * (l->shape.n_heads / l->lanes);
  int passes = (all + MOST - 1) / MOST, each = (all + passes - 1) / passes;
  starts[each - 1](stream, l, rows, masked != 0);
}
