/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits of a tile of query rows against the entries of every lane: a thread
 * an entry, each (query, entry) pair one chain of fma over x ascending
 * (arithmetic 1). Keys come through shared memory, SLAB columns at a time, and
 * are read once for QUERIES queries.
 *
 * Where the views are known already (masked), entries that no head of the
 * lane sees are neither read nor computed.
 */
#include "gpu/device.h"
#include "gpu/entry.cuh"
#include "gpu/launch.h"

constexpr int SLAB = 32, QUERIES = 8, PAD = SLAB + 1;

/* Row of the rotation that takes entry i to place i (ref/attend_lane.c). */
static __device__ const float *turn_of(const kv_gpu_layer &l,
                                       const kv_gpu_lane *lane, int i) {
  const int32_t *p = l.position;
  int32_t id = (int32_t)lane->id[i];
  int32_t distance = p ? p[0] + i - p[id] : i - id;
  if (distance == 0) return nullptr;
  return l.rotation + (size_t)(distance + l.range) * (size_t)l.shape.d;
}

/* Element x of a rotated key: its pair's other half turns into it. */
static __device__ float turned(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                               int i, int x, const float *turn) {
  int half = l.shape.d / 2;
  int pair = l.interleaved ? x / 2 : x % half;
  int second = l.interleaved ? x % 2 : x / half;
  int a = l.interleaved ? 2 * pair : pair;
  int b = l.interleaved ? a + 1 : a + half;
  float s = turn[2 * pair], c = turn[2 * pair + 1];
  float x1 = kv_gpu_key(l, lane, i, a), x2 = kv_gpu_key(l, lane, i, b);
  return second ? kv_fma(x2, c, kv_mul(x1, s)) : kv_fma(-x2, s, kv_mul(x1, c));
}

static __device__ float element(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                int i, int x) {
  const float *turn = l.needs.reindex ? turn_of(l, lane, i) : nullptr;
  return turn ? turned(l, lane, i, x, turn) : kv_gpu_key(l, lane, i, x);
}

static __device__ bool is_seen(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                               int i) {
  for (int h = 0; h < lane->queries; h++)
    if (l.mask[(size_t)(lane->first_head + h) * (size_t)l.stride + (size_t)i])
      return true;
  return false;
}

/* Where query j of the lane's tile stands among the layer's. */
static __device__ size_t place_of(const kv_gpu_layer &l,
                                  const kv_gpu_lane *lane, int j) {
  return (size_t)(j / lane->queries) * (size_t)l.shape.n_heads +
         (size_t)(lane->first_head + j % lane->queries);
}

/* The sums of queries j.. (at most QUERIES) with entry base + thread. */
static __device__ void chains(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                              int base, bool mine, int j, int count,
                              float *acc) {
  KV_SHARED(float, key, KV_BLOCK *PAD);
  KV_SHARED(float, query, QUERIES *SLAB);
  KV_SHARED(uint8_t, wanted, KV_BLOCK);
  int thread = (int)threadIdx.x, d = l.shape.d;
  wanted[thread] = mine;
  __syncthreads();
  for (int x0 = 0; x0 < d; x0 += SLAB) {
    int width = d - x0 < SLAB ? d - x0 : SLAB;
    for (int at = thread; at < KV_BLOCK * SLAB; at += KV_BLOCK) {
      int i = at / SLAB, x = at % SLAB;
      if (wanted[i] && x < width)
        key[i * PAD + x] = element(l, lane, base + i, x0 + x);
    }
    for (int at = thread; at < count * SLAB; at += KV_BLOCK) {
      int q = at / SLAB, x = at % SLAB;
      if (x < width)
        query[at] =
            l.q[place_of(l, lane, j + q) * (size_t)d + (size_t)(x0 + x)];
    }
    __syncthreads();
    if (mine)
      for (int x = 0; x < width; x++)
        for (int q = 0; q < QUERIES; q++)
          if (q < count)
            acc[q] = kv_fma(query[q * SLAB + x], key[thread * PAD + x], acc[q]);
    __syncthreads();
  }
}

static __global__ void logits(kv_gpu_layer l, int rows, bool masked) {
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  int base = (int)blockIdx.x * KV_BLOCK, i = base + (int)threadIdx.x;
  if (base >= lane->n) return;
  bool mine = i < lane->n && (!masked || is_seen(l, lane, i));
  float bias = mine ? kv_gpu_bias(l, lane, i) : 0.0f;
  for (int j = 0; j < rows * lane->queries; j += QUERIES) {
    int left = rows * lane->queries - j;
    int count = left < QUERIES ? left : QUERIES;
    float acc[QUERIES];
    for (int q = 0; q < QUERIES; q++) acc[q] = 0;
    chains(l, lane, base, mine, j, count, acc);
    for (int q = 0; q < QUERIES; q++) {
      if (!mine || q >= count) continue;
      float s = kv_add(kv_mul(acc[q], l.shape.scale), 0.0f);
      if (bias != 0) s = kv_add(kv_add(s, bias), 0.0f);
      l.s[place_of(l, lane, j + q) * (size_t)l.stride + (size_t)i] = s;
    }
  }
}

extern "C" void kv_gpu_start_logits(void *stream, const kv_gpu_layer *l,
                                    int rows, int masked) {
  dim3 grid((unsigned)l->chunks, (unsigned)l->lanes);
  KV_LAUNCH(stream, logits, grid, KV_BLOCK, *l, rows, masked != 0);
}
