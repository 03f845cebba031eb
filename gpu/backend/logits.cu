/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits of a tile of query rows against the entries of every lane: each
 * (query, entry) pair is one chain of fma over x ascending (arithmetic 1), in
 * one thread (gpu/lane/keys.cuh). Keys are read once for up to 8 queries: those
 * of a lane are shared out evenly, 11 heads are 6 and 5. A block has 256
 * entries.
 *
 * If the views are known already (masked), entries that no head of the lane
 * sees are not read and their logits are not written.
 *
 * PLAIN: every entry is an unchanged row of its lane's pool, two entries a
 * thread. Otherwise gpu/lane/keys_mixed.cuh reads them, 128 after 128.
 */
#include "gpu/lane/keys_mixed.cuh"
#include "gpu/shared/device.h"

constexpr int MOST = 8, ENTRIES = 2, TILE = ENTRIES * KV_BLOCK;

/* What a block computes: entries base .. of a lane, for a tile of queries. */
typedef struct task {
  const kv_gpu_lane *lane;
  int base, all; /* all: queries of the tile */
  bool masked;
} task;

/* Index of query j of the lane's tile among the layer's. */
static __device__ size_t place_of(const kv_gpu_layer &l,
                                  const kv_gpu_lane *lane, int j) {
  return (size_t)(j / lane->queries) * (size_t)l.shape.n_heads +
         (size_t)(lane->first_head + j % lane->queries);
}

/* Query of the thread in the pass of queries j.., for kv_key_fetch_queries. */
static __device__ const float *
query_of(const kv_gpu_layer &l, const kv_gpu_lane *lane, int j, int count) {
  int q = kv_key_query();
  size_t at = place_of(l, lane, j + (q < count ? q : count - 1));
  return l.q + at * (size_t)l.shape.d;
}

static __device__ bool wanted(const kv_gpu_layer &l, const task &a, int i) {
  return i < a.lane->n && (!a.masked || kv_gpu_seen(l, a.lane, i));
}

/* Writes the logits of entry i from its sums with queries j .. j + count - 1.
 */
template <int QUERIES>
static __device__ void keep(const kv_gpu_layer &l, const task &a, int i, int j,
                            int count, float bias, const float *acc) {
  KV_UNROLL
  for (int q = 0; q < QUERIES; q++) {
    if (q >= count) continue;
    float s = kv_add(kv_mul(acc[q], l.shape.scale), 0.0f);
    if (bias != 0) s = kv_add(kv_add(s, bias), 0.0f);
    l.s[place_of(l, a.lane, j + q) * (size_t)l.stride + (size_t)i] = s;
  }
}

/* Calls chains(q, acc) for up to QUERIES queries at a time, and keeps what the
 * thread's entries have. mine [COUNT]: which of them are wanted; bias [COUNT].
 */
template <int QUERIES, int COUNT, class Chains>
static __device__ void passes(const kv_gpu_layer &l, const task &a,
                              const bool *mine, const float *bias,
                              const Chains &chains) {
  for (int j = 0; j < a.all; j += QUERIES) {
    int count = a.all - j < QUERIES ? a.all - j : QUERIES;
    float acc[COUNT * QUERIES];
    KV_UNROLL
    for (int u = 0; u < COUNT * QUERIES; u++) acc[u] = 0;
    chains(query_of(l, a.lane, j, count), acc);
    KV_UNROLL
    for (int e = 0; e < COUNT; e++)
      if (mine[e])
        keep<QUERIES>(l, a, a.base + e * KV_BLOCK + kv_thread(), j, count,
                      bias[e], acc + e * QUERIES);
  }
}

template <int QUERIES>
static __device__ void plain(const kv_gpu_layer &l, const task &a,
                             const kv_key_room &room) {
  KV_SHARED(const char *, row, TILE);
  const float bias[ENTRIES] = {0, 0};
  bool mine[ENTRIES];
  KV_UNROLL
  for (int e = 0; e < ENTRIES; e++) {
    int at = e * KV_BLOCK + kv_thread(), i = a.base + at;
    mine[e] = wanted(l, a, i);
    row[at] = nullptr;
    if (mine[e]) row[at] = kv_gpu_raw_at(a.lane->k_raw, a.lane->k[i].block);
  }
  __syncthreads();
  passes<QUERIES, ENTRIES>(l, a, mine, bias, [&](const float *q, float *acc) {
    int d = l.shape.d;
    if (l.shape.dtype == KV_F16)
      kv_key_chains<QUERIES, ENTRIES, KV_F16>(d, row, q, room, acc);
    else if (l.shape.dtype == KV_BF16)
      kv_key_chains<QUERIES, ENTRIES, KV_BF16>(d, row, q, room, acc);
    else
      kv_key_chains<QUERIES, ENTRIES, KV_F32>(d, row, q, room, acc);
  });
}

/* KV_BLOCK entries from a.base on. */
template <int QUERIES>
static __device__ void mixed(const kv_gpu_layer &l, const task &a,
                             const kv_key_room &room) {
  KV_SHARED(kv_key_row, row, KV_BLOCK);
  int i = a.base + kv_thread();
  bool mine = wanted(l, a, i);
  float bias = mine ? kv_gpu_bias(l, a.lane, i) : 0.0f;
  row[kv_thread()] = kv_key_row_of(l, a.lane, i, mine);
  __syncthreads();
  passes<QUERIES, 1>(l, a, &mine, &bias, [&](const float *q, float *acc) {
    kv_key_chains_mixed<QUERIES>(l, row, q, room, acc);
  });
}

template <int QUERIES, bool PLAIN>
static __global__ void logits(const __grid_constant__ kv_gpu_layer l, int rows,
                              bool masked) {
  KV_SHARED(kv_piece, key,
            KV_KEY_STAGES * (PLAIN ? TILE : KV_BLOCK) * KV_KEY_PIECES);
  KV_SHARED(kv_quad, query, KV_KEY_STAGES * QUERIES * KV_KEY_QUADS);
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  int base = (int)blockIdx.x * TILE, end = base + TILE;
  task a = {lane, base, rows * lane->queries, masked};
  if (base >= lane->n) return;
  if (PLAIN) {
    plain<QUERIES>(l, a, {key, query});
    return;
  }
  for (; a.base < end && a.base < lane->n; a.base += KV_BLOCK)
    mixed<QUERIES>(l, a, {key, query});
}

template <int QUERIES>
static void start(void *stream, const kv_gpu_layer *l, int rows, bool masked) {
  constexpr int CHUNKS = TILE / KV_GPU_CHUNK;
  dim3 grid((unsigned)((l->chunks + CHUNKS - 1) / CHUNKS), (unsigned)l->lanes);
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
