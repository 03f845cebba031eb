/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a step's inputs: the clock, passed as a kernel argument so that no host
 * memory need outlive the call, and its query rows, widened to fp32 from the
 * uploaded trace. The query of a re-indexed lane is rotated to the lane's last
 * place.
 */
#include "gpu/lane/entry.cuh"
#include "gpu/shared/device.h"
#include "ref/ground/arith.h"

static __global__ void tell(kv_gpu_clock *to, kv_gpu_clock clock) {
  if (threadIdx.x == 0) *to = clock;
}

/* The rotation that a query needs; null: none. */
static __device__ const float *turn_to_end(const kv_gpu_layer &l,
                                           const kv_gpu_lane *lane) {
  const int32_t *p = l.position;
  int last = lane->n - 1;
  int32_t id = (int32_t)lane->id[last];
  int32_t distance = p ? p[0] - p[id] + last : last - id;
  if (distance == 0) return nullptr;
  return l.rotation + (size_t)(distance + l.range) * (size_t)l.shape.d;
}

/* Rotates pair i, as ref/ground/rope.c does. */
static __device__ void turn_pair(const kv_gpu_layer &l, const kv_gpu_row &row,
                                 const float *turn, int i, float *q) {
  int a = l.interleaved ? 2 * i : i;
  int b = l.interleaved ? a + 1 : a + l.shape.d / 2;
  float s = turn[2 * i], c = turn[2 * i + 1];
  float x1 = kv_gpu_element(row, a), x2 = kv_gpu_element(row, b);
  q[a] = kv_fma(-x2, s, kv_mul(x1, c));
  q[b] = kv_fma(x2, c, kv_mul(x1, s));
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
  const float *turn = l.needs.reindex ? turn_to_end(l, lane) : nullptr;
  for (int x = (int)threadIdx.x; !turn && x < d; x += KV_BLOCK)
    q[x] = kv_gpu_element(row, x);
  for (int i = (int)threadIdx.x; turn && i < d / 2; i += KV_BLOCK)
    turn_pair(l, row, turn, i, q);
}

extern "C" void kv_gpu_start_tell(void *stream, const kv_gpu_layer *l,
                                  const kv_gpu_clock *clock) {
  kv_gpu_clock *to = (kv_gpu_clock *)(uintptr_t)l->clock;
  KV_LAUNCH(stream, tell, 1, KV_BLOCK, to, *clock);
}

extern "C" void kv_gpu_start_queries(void *stream, const kv_gpu_layer *l,
                                     int rows) {
  dim3 grid((unsigned)l->shape.n_heads, (unsigned)rows);
  KV_LAUNCH(stream, queries, grid, KV_BLOCK, *l);
}
