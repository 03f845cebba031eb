/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits as in logits.cu, for lanes whose coded keys have their own scales: a
 * block whose 256 entries are all coded alike decodes them on the way
 * (gpu/lane/keys_rows.cuh), and gpu/lane/logits.cuh reads the rest, 128 at a
 * time. A separate kernel, because its blocks of codes take more shared memory.
 */
#include "gpu/lane/keys_rows.cuh"
#include "gpu/lane/logits.cuh"
#include "gpu/shared/device.h"

constexpr int MOST = KV_LOGITS_MOST, TILE = KV_LOGITS_TILE;

/* The tile, if its entries are all coded alike and suit; whether they did. */
template <int QUERIES>
static __device__ bool coded(const kv_gpu_layer &l, const kv_logits_task &a,
                             kv_piece *room, kv_quad *query) {
  KV_SHARED(const char *, row, TILE);
  kv_row_keys x;
  if (a.masked || l.shape.d % 4 ||
      !kv_row_keys_suit(l, a.lane, a.base, room, &x))
    return false;
  kv_logits_own<2> own = {a.base + kv_thread(), KV_BLOCK, {}, {}};
  for (int e = 0; e < 2; e++) {
    int i = own.first + e * KV_BLOCK;
    own.mine[e] = i < a.lane->n;
    if (!own.mine[e]) continue;
    own.bias[e] = kv_logits_bias(l, a.lane, i);
    row[i - a.base] = kv_gpu_slab_row(a.lane->k_slab, a.lane->k[i]).at;
  }
  __syncthreads();
  kv_row_keys_fetch(row, x);
  kv_async_wait<0>();
  __syncthreads();
  kv_row_keys_align(x);
  kv_logits_passes<QUERIES>(l, a, own, [&](int j, int count, float *acc) {
    kv_logits_fetch<QUERIES>(l, a, j, count, query);
    kv_async_wait<0>();
    __syncthreads();
    if (kv_rule_floats(x.how.rule))
      kv_row_chains<QUERIES, true>(x, query, acc);
    else
      kv_row_chains<QUERIES, false>(x, query, acc);
    __syncthreads();
  });
  return true;
}

template <int QUERIES>
static __global__ void row_logits(const __grid_constant__ kv_gpu_layer l,
                                  int rows, bool masked) {
  constexpr int KEYS = KV_ROW_PIECES * KV_ROW_TILE, MIXED = KV_LOGITS_STAGES;
  static_assert(TILE == KV_ROW_TILE, "the same tiles");
  static_assert((KEYS - MIXED) * sizeof(kv_piece) >=
                    KV_BLOCK * sizeof(kv_key_row),
                "rows beside the stages of keys");
  KV_SHARED(kv_piece, key, KEYS);
  KV_SHARED(kv_quad, query, QUERIES * KV_ROW_WIDTH / 4);
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  int base = (int)blockIdx.x * TILE, end = base + TILE;
  kv_logits_task a = {lane, base, rows * lane->queries, masked};
  if (base >= kv_gpu_visible(l, lane, rows - 1)) return;
  if (coded<QUERIES>(l, a, key, query)) return;
  for (; a.base < end && a.base < lane->n; a.base += KV_BLOCK)
    kv_logits_mixed<QUERIES>(l, a, {key, query}, (kv_key_row *)(key + MIXED));
}

template <int QUERIES>
static void start(void *stream, const kv_gpu_layer *l, int rows, bool masked) {
  KV_LAUNCH(stream, row_logits<QUERIES>, kv_logits_grid(l), KV_BLOCK, *l, rows,
            masked);
}

extern "C" void kv_gpu_start_row_logits(void *stream, const kv_gpu_layer *l,
                                        int rows, int masked) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *, int, bool) = {
      start<1>, start<2>, start<3>, start<4>,
      start<5>, start<6>, start<7>, start<8>};
  starts[kv_logits_queries(l, rows) - 1](stream, l, rows, masked != 0);
}
