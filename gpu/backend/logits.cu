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
 * thread. Otherwise a block whose entries are all coded alike decodes them on
 * the way (gpu/lane/keys_coded.cuh), and gpu/lane/keys_mixed.cuh reads what is
 * left, 128 after 128.
 */
#include "gpu/lane/keys_coded.cuh"
#include "gpu/lane/keys_mixed.cuh"
#include "gpu/shared/device.h"

constexpr int MOST = 8, ENTRIES = 2, TILE = ENTRIES * KV_BLOCK;

/* What a block computes: entries base .. of a lane, for a tile of queries. */
typedef struct task {
  const kv_gpu_lane *lane;
  int base, all; /* all: queries of the tile */
  bool masked;
} task;

/* Index of query j of the lane's tile among the layer's; a decode step has one
 * row, and nothing to divide. */
static __device__ size_t place_of(const kv_gpu_layer &l,
                                  const kv_gpu_lane *lane, int j) {
  int row = 0, queries = lane->queries;
  if (j >= queries) row = j / queries;
  return (size_t)row * (size_t)l.shape.n_heads +
         (size_t)(lane->first_head + j - row * queries);
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

/* The COUNT entries of a thread: first, first + step, ..; which are wanted, and
 * their bias. */
template <int COUNT> struct own_entries {
  int first, step;
  bool mine[COUNT];
  float bias[COUNT];
};

/* Calls chains(j, count, acc) for up to QUERIES queries j .. at a time, and
 * keeps what the thread's entries have. */
template <int QUERIES, int COUNT, class Chains>
static __device__ void passes(const kv_gpu_layer &l, const task &a,
                              const own_entries<COUNT> &own,
                              const Chains &chains) {
  for (int j = 0; j < a.all; j += QUERIES) {
    int count = a.all - j < QUERIES ? a.all - j : QUERIES;
    float acc[COUNT * QUERIES];
    KV_UNROLL
    for (int u = 0; u < COUNT * QUERIES; u++) acc[u] = 0;
    chains(j, count, acc);
    KV_UNROLL
    for (int e = 0; e < COUNT; e++)
      if (own.mine[e])
        keep<QUERIES>(l, a, own.first + e * own.step, j, count, own.bias[e],
                      acc + e * QUERIES);
  }
}

template <int QUERIES>
static __device__ void plain(const kv_gpu_layer &l, const task &a,
                             const kv_key_room &room) {
  KV_SHARED(const char *, row, TILE);
  own_entries<ENTRIES> own = {a.base + kv_thread(), KV_BLOCK, {}, {}};
  KV_UNROLL
  for (int e = 0; e < ENTRIES; e++) {
    int at = e * KV_BLOCK + kv_thread(), i = a.base + at;
    own.mine[e] = wanted(l, a, i);
    row[at] = nullptr;
    if (own.mine[e]) row[at] = kv_gpu_raw_at(a.lane->k_raw, a.lane->k[i].block);
  }
  __syncthreads();
  passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    const float *q = query_of(l, a.lane, j, count);
    int d = l.shape.d;
    if (l.shape.dtype == KV_F16)
      kv_key_chains<QUERIES, ENTRIES, KV_F16>(d, row, q, room, acc);
    else if (l.shape.dtype == KV_BF16)
      kv_key_chains<QUERIES, ENTRIES, KV_BF16>(d, row, q, room, acc);
    else
      kv_key_chains<QUERIES, ENTRIES, KV_F32>(d, row, q, room, acc);
  });
}

/* KV_BLOCK entries from a.base on; row [KV_BLOCK]. */
template <int QUERIES>
static __device__ void mixed(const kv_gpu_layer &l, const task &a,
                             const kv_key_room &room, kv_key_row *row) {
  int i = a.base + kv_thread();
  own_entries<1> own = {i, 0, {wanted(l, a, i)}, {0}};
  if (own.mine[0]) own.bias[0] = kv_gpu_bias(l, a.lane, i);
  row[kv_thread()] = kv_key_row_of(l, a.lane, i, own.mine[0]);
  __syncthreads();
  passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    const float *q = query_of(l, a.lane, j, count);
    kv_key_chains_mixed<QUERIES>(l, row, q, room, acc);
  });
}

/* Copies queries j .. j + count - 1, and the last one where QUERIES are more.
 */
template <int QUERIES>
static __device__ void fetch_whole(const kv_gpu_layer &l, const task &a, int j,
                                   int count, kv_quad *query) {
  int each = l.shape.d / 4;
  for (int at = kv_thread(); at < QUERIES * each; at += KV_BLOCK) {
    int q = at / each;
    size_t from = place_of(l, a.lane, j + (q < count ? q : count - 1));
    kv_async_16((kv_piece *)&query[at],
                l.q + from * (size_t)l.shape.d + 4 * (at % each));
  }
  kv_async_commit();
}

/* The tile, if its entries are all coded in FORMAT and suit; whether they did.
 */
template <int QUERIES, int FORMAT>
static __device__ bool coded(const kv_gpu_layer &l, const task &a, char *room,
                             kv_quad *query) {
  KV_SHARED(const char *, row, KV_CODED_TILE);
  KV_SHARED(const char *, block, KV_CODED_BLOCKS);
  kv_coded_keys x;
  if (a.masked || l.shape.d % 4 ||
      !kv_coded_suits<FORMAT>(l, a.lane, a.base, room, block, &x))
    return false;
  own_entries<2> own = {a.base + 2 * kv_thread(), 1, {}, {}};
  for (int e = 0; e < 2; e++) {
    own.mine[e] = own.first + e < a.lane->n;
    if (own.mine[e]) own.bias[e] = kv_gpu_bias(l, a.lane, own.first + e);
  }
  __syncthreads();
  kv_coded_rows(a.lane, a.base, block, x, row);
  __syncthreads();
  kv_coded_fetch(row, block, x);
  passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    fetch_whole<QUERIES>(l, a, j, count, query);
    kv_async_wait<0>();
    __syncthreads();
    if (x.how.rule == KV_RULE_FP16)
      kv_coded_chains<QUERIES, true>(x, query, acc);
    else
      kv_coded_chains<QUERIES, false>(x, query, acc);
    __syncthreads();
  });
  return true;
}

/* Memory of a block: pieces of keys, quads of queries. */
template <int QUERIES, bool PLAIN> struct sizes {
  static constexpr int KEYS =
      PLAIN ? KV_KEY_STAGES * TILE * KV_KEY_PIECES : KV_CODED_ROOM / 16;
  static constexpr int QUERY = PLAIN ? KV_KEY_STAGES * QUERIES * KV_KEY_QUADS
                                     : QUERIES * KV_CODED_WIDTH / 4;
};

template <int QUERIES, bool PLAIN>
static __global__ void logits(const __grid_constant__ kv_gpu_layer l, int rows,
                              bool masked) {
  typedef sizes<QUERIES, PLAIN> size;
  constexpr int MIXED = KV_KEY_STAGES * KV_BLOCK * KV_KEY_PIECES;
  static_assert(TILE == KV_CODED_TILE, "the same tiles");
  static_assert(PLAIN || (size::KEYS - MIXED) * sizeof(kv_piece) >=
                             KV_BLOCK * sizeof(kv_key_row),
                "rows beside the stages of keys");
  KV_SHARED(kv_piece, key, size::KEYS);
  KV_SHARED(kv_quad, query, size::QUERY);
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  int base = (int)blockIdx.x * TILE, end = base + TILE;
  task a = {lane, base, rows * lane->queries, masked};
  if (base >= kv_gpu_visible(l, lane, rows - 1)) return;
  if (PLAIN) {
    plain<QUERIES>(l, a, {key, query});
    return;
  }
  if (coded<QUERIES, KV_GPU_channel>(l, a, (char *)key, query)) return;
  for (; a.base < end && a.base < lane->n; a.base += KV_BLOCK)
    mixed<QUERIES>(l, a, {key, query}, (kv_key_row *)(key + MIXED));
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
