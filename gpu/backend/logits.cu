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
 * the way (gpu/lane/keys_coded.cuh where they share scales by channel; a kernel
 * of its own, logits_rows.cu, where rows have scales of their own), and
 * gpu/lane/keys_mixed.cuh reads what is left, 128 after 128.
 */
#include "gpu/lane/keys_coded.cuh"
#include "gpu/lane/logits.cuh"
#include "gpu/shared/device.h"
#include <string.h>

constexpr int MOST = KV_LOGITS_MOST, ENTRIES = KV_LOGITS_EACH,
              TILE = KV_LOGITS_TILE;

template <int QUERIES>
static __device__ void plain(const kv_gpu_layer &l, const kv_logits_task &a,
                             const kv_key_room &room) {
  KV_SHARED(const char *, row, TILE);
  kv_logits_own<ENTRIES> own = {a.base + kv_thread(), KV_BLOCK, {}, {}};
  KV_UNROLL
  for (int e = 0; e < ENTRIES; e++) {
    int at = e * KV_BLOCK + kv_thread(), i = a.base + at;
    own.mine[e] = kv_logits_wanted(l, a, i);
    row[at] = nullptr;
    if (own.mine[e]) row[at] = kv_gpu_raw_at(a.lane->k_raw, a.lane->k[i].block);
  }
  __syncthreads();
  kv_logits_passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    const float *q = kv_logits_query(l, a.lane, j, count);
    int d = l.shape.d;
    if (l.shape.dtype == KV_F16)
      kv_key_chains<QUERIES, ENTRIES, KV_F16>(d, row, q, room, acc);
    else if (l.shape.dtype == KV_BF16)
      kv_key_chains<QUERIES, ENTRIES, KV_BF16>(d, row, q, room, acc);
    else
      kv_key_chains<QUERIES, ENTRIES, KV_F32>(d, row, q, room, acc);
  });
}

/* The tile, if its entries are all coded in FORMAT and suit; whether they did.
 */
template <int QUERIES, int FORMAT>
static __device__ bool coded(const kv_gpu_layer &l, const kv_logits_task &a,
                             char *room, kv_quad *query) {
  KV_SHARED(const char *, row, KV_CODED_TILE);
  KV_SHARED(const char *, block, KV_CODED_BLOCKS);
  kv_coded_keys x;
  if (a.masked || l.shape.d % 4 ||
      !kv_coded_suits<FORMAT>(l, a.lane, a.base, room, block, &x))
    return false;
  kv_logits_own<2> own = {a.base + 2 * kv_thread(), 1, {}, {}};
  for (int e = 0; e < 2; e++) {
    own.mine[e] = own.first + e < a.lane->n;
    if (own.mine[e]) own.bias[e] = kv_logits_bias(l, a.lane, own.first + e);
  }
  __syncthreads();
  kv_coded_rows(a.lane, a.base, block, x, row);
  __syncthreads();
  kv_coded_fetch(row, block, x);
  kv_logits_passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    kv_logits_fetch<QUERIES>(l, a, j, count, query);
    kv_async_wait<0>();
    __syncthreads();
    kv_coded_chains<QUERIES>(x, query, acc);
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
  constexpr int MIXED = KV_LOGITS_STAGES;
  static_assert(TILE == KV_CODED_TILE, "the same tiles");
  static_assert(PLAIN || (size::KEYS - MIXED) * sizeof(kv_piece) >=
                             KV_BLOCK * sizeof(kv_key_row),
                "rows beside the stages of keys");
  KV_SHARED(kv_piece, key, size::KEYS);
  KV_SHARED(kv_quad, query, size::QUERY);
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  int base = (int)blockIdx.x * TILE, end = base + TILE;
  kv_logits_task a = {lane, base, rows * lane->queries, masked};
  if (base >= kv_gpu_visible(l, lane, rows - 1)) return;
  if (PLAIN) {
    plain<QUERIES>(l, a, {key, query});
    return;
  }
  if (coded<QUERIES, KV_GPU_channel>(l, a, (char *)key, query)) return;
  for (; a.base < end && a.base < lane->n; a.base += KV_BLOCK)
    kv_logits_mixed<QUERIES>(l, a, {key, query}, (kv_key_row *)(key + MIXED));
}

/* What the host knows of the keys of all lanes. */
typedef enum keys_are { UNCHANGED, CODED_BY_CHANNEL, CODED_BY_ROW } keys_are;

static keys_are kind_of(const kv_gpu_layer *l) {
  const kv_needs *n = &l->needs;
  bool coded = n->merges || n->reindex, channel = n->reindex;
  for (int i = 0; i < n->codings; i++) {
    const kv_coding *c = &n->coding[i];
    if (!kv_codes_keys(c)) continue;
    coded = true;
    channel |= !c->format || strcmp(c->format->name, "channel") == 0;
  }
  return !coded ? UNCHANGED : channel ? CODED_BY_CHANNEL : CODED_BY_ROW;
}

template <int QUERIES>
static void start(void *stream, const kv_gpu_layer *l, int rows, bool masked) {
  if (kind_of(l) == UNCHANGED)
    KV_LAUNCH(stream, (logits<QUERIES, true>), kv_logits_grid(l), KV_BLOCK, *l,
              rows, masked);
  else
    KV_LAUNCH(stream, (logits<QUERIES, false>), kv_logits_grid(l), KV_BLOCK, *l,
              rows, masked);
}

extern "C" void kv_gpu_start_logits(void *stream, const kv_gpu_layer *l,
                                    int rows, int masked) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *, int, bool) = {
      start<1>, start<2>, start<3>, start<4>,
      start<5>, start<6>, start<7>, start<8>};
  if (kind_of(l) == CODED_BY_ROW)
    kv_gpu_start_row_logits(stream, l, rows, masked);
  else
    starts[kv_logits_queries(l, rows) - 1](stream, l, rows, masked != 0);
  kv_gpu_start_cap(stream, l, rows, masked);
}
