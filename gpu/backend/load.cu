/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a step's inputs: the clock, passed as a kernel argument so that no host
 * memory need outlive the call, and its query rows, widened to fp32 from the
 * uploaded trace. The query of a re-indexed lane is rotated to the place of its
 * token, the last that it sees.
 */
#include "gpu/lane/entry.cuh"
#include "gpu/shared/device.h"
#include "ref/ground/arith.h"

static __global__ void set_clock(kv_gpu_clock *to, kv_gpu_clock clock) {
  if (threadIdx.x == 0) *to = clock;
}

/* The turns of row r's query; back NULL: none. */
static __device__ kv_gpu_turns turns_of(const kv_gpu_layer &l,
                                        const kv_gpu_lane *lane, int r) {
  if (!l.needs.reindex) return {nullptr, nullptr};
  int place = kv_gpu_visible(l, lane, r) - 1;
  return kv_gpu_turns_of(l, lane->id[place], place);
}

/* Turns pair i, as ref/ground/rope.c does. */
static __device__ void place_pair(const kv_gpu_layer &l, const kv_gpu_row &row,
                                  const kv_gpu_turns &turns, int i, float *q) {
  kv_gpu_pair p =
      kv_gpu_pair_of(kv_gpu_turned_of(l), l.shape.d, l.interleaved ? 2 * i : i);
  float y1 = kv_gpu_element(row, p.first), y2 = kv_gpu_element(row, p.second);
  q[p.first] = kv_gpu_placed(p, turns, p.first, y1, y2);
  q[p.second] = kv_gpu_placed(p, turns, p.second, y1, y2);
}

static __global__ void queries(kv_gpu_layer l) {
  int r = (int)blockIdx.y, h = (int)blockIdx.x, d = l.shape.d;
  const kv_gpu_lane *lane = &l.lane[h / (l.shape.n_heads / l.lanes)];
  size_t at = (size_t)h * (size_t)l.query_rows + (size_t)(l.clock->at + r);
  size_t size = l.query_type == KV_F32 ? 4 : 2;
  kv_gpu_row row =
      kv_gpu_plain_row(l.query + at * (size_t)d * size, l.query_type);
  float *q =
      l.q + ((size_t)r * (size_t)l.shape.n_heads + (size_t)h) * (size_t)d;
  kv_gpu_turns turns = turns_of(l, lane, r);
  for (int x = (int)threadIdx.x; !turns.back && x < d; x += KV_BLOCK)
    q[x] = kv_gpu_element(row, x);
  for (int i = (int)threadIdx.x; turns.back && i < d / 2; i += KV_BLOCK)
    place_pair(l, row, turns, i, q);
}

extern "C" void kv_gpu_start_clock(void *stream, const kv_gpu_layer *l,
                                   const kv_gpu_clock *clock) {
  kv_gpu_clock *to = (kv_gpu_clock *)(uintptr_t)l->clock;
  KV_LAUNCH(stream, set_clock, 1, KV_BLOCK, to, *clock);
}

extern "C" void kv_gpu_start_queries(void *stream, const kv_gpu_layer *l,
                                     int rows) {
  dim3 grid((unsigned)l->shape.n_heads, (unsigned)rows);
  KV_LAUNCH(stream, queries, grid, KV_BLOCK, *l);
}
