/* SPDX-License-Identifier: Apache-2.0
 *
 * A method's twin: its hooks as device functions, one block a lane (settle
 * layer: one block for all lanes). All threads of the block call a hook with
 * the same arguments; hooks change memory through gpu/verbs.cuh only and find
 * what papers share in gpu/parts.cuh. `arrive` calls no verbs: before a lane is
 * settled the host knows only that tokens entered it.
 *
 *   static __device__ void settle_lane(kv_gpu_at &at, kv_gpu_lane *lane);
 *   KV_GPU_METHOD(window, nullptr, nullptr, nullptr,
 *                 (kv_on_lane<settle_lane>), nullptr);
 *
 * in the order of kv_gpu_hooks.
 */
#ifndef KV_GPU_METHOD_CUH
#define KV_GPU_METHOD_CUH

#include "gpu/block.cuh"
#include "gpu/device.h"
#include "gpu/lane.h"
#include "ref/arith.h"

#include <assert.h>

typedef void kv_gpu_arrive(kv_gpu_at &at, kv_gpu_lane *lane, int first);
typedef void kv_gpu_view(kv_gpu_at &at, const kv_gpu_lane *lane,
                         const kv_gpu_query &query, uint8_t *mask);
typedef void kv_gpu_observe(kv_gpu_at &at, kv_gpu_lane *lane,
                            const kv_gpu_rows &rows);
typedef void kv_gpu_settle(kv_gpu_at &at, kv_gpu_lane *lane);
typedef void kv_gpu_together(kv_gpu_at &at, kv_gpu_lane *lane, int lanes);

KV_DEVICE kv_gpu_at kv_at_lane(const kv_gpu_layer &l, const kv_gpu_lane *lane) {
  kv_gpu_at at = {&l,         l.params,        l.clock->first + l.clock->count,
                  lane->work, lane->work_size, 0};
  return at;
}

/* n bytes of the workspace, 64-byte aligned; the same for all threads. */
KV_DEVICE void *kv_gpu_take(kv_gpu_at &at, size_t n) {
  void *p = at.work + at.used;
  at.used += (n + 63) / 64 * 64;
  assert(at.used <= at.work_size && "a method takes what its needs said");
  return p;
}
#define KV_GPU_TAKE(at, type, n)                                               \
  ((type *)kv_gpu_take((at), (size_t)(n) * sizeof(type)))

template <kv_gpu_arrive hook> __global__ void kv_run_arrive(kv_gpu_layer l) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_gpu_at at = kv_at_lane(l, lane);
  hook(at, lane, lane->n - l.clock->count);
}

template <kv_gpu_view hook> __global__ void kv_run_view(kv_gpu_layer l) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  for (int h = 0; h < lane->queries; h++) {
    kv_gpu_at at = kv_at_lane(l, lane);
    size_t head = (size_t)(lane->first_head + h), d = (size_t)l.shape.d;
    const float *group = l.q + (size_t)lane->first_head * d;
    kv_gpu_query q = {h, lane->queries, l.q + head * d, group,
                      l.needs.view_logits ? l.s + head * (size_t)l.stride
                                          : nullptr};
    hook(at, lane, q, l.mask + head * (size_t)l.stride);
    __syncthreads();
  }
}

template <kv_gpu_observe hook> __global__ void kv_run_observe(kv_gpu_layer l) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_gpu_at at = kv_at_lane(l, lane);
  size_t head = (size_t)lane->first_head, stride = (size_t)l.stride;
  int behind = l.clock->first + l.clock->count - l.clock->row - l.clock->rows;
  unsigned want = l.needs.want;
  kv_gpu_rows rows = {l.clock->row,
                      l.clock->rows,
                      lane->queries,
                      lane->n - behind,
                      l.shape.n_heads,
                      stride,
                      want & KV_Q ? l.q + head * (size_t)l.shape.d : nullptr,
                      want & KV_S ? l.s + head * stride : nullptr,
                      want & KV_P ? l.p + head * stride : nullptr,
                      want & KV_SUM ? l.sum + head * stride : nullptr};
  hook(at, lane, rows);
}

template <kv_gpu_settle hook> __global__ void kv_run_settle(kv_gpu_layer l) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_gpu_at at = kv_at_lane(l, lane);
  hook(at, lane);
}

template <kv_gpu_together hook> __global__ void kv_run_layer(kv_gpu_layer l) {
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  hook(at, l.lane, l.lanes);
}

/* Launches; a method's table names those that it has. */
template <kv_gpu_arrive hook>
void kv_on_arrive(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, kv_run_arrive<hook>, l->lanes, KV_BLOCK, *l);
}
template <kv_gpu_view hook> void kv_on_view(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, kv_run_view<hook>, l->lanes, KV_BLOCK, *l);
}
template <kv_gpu_observe hook> void kv_on_rows(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, kv_run_observe<hook>, l->lanes, KV_BLOCK, *l);
}
template <kv_gpu_settle hook> void kv_on_lane(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, kv_run_settle<hook>, l->lanes, KV_BLOCK, *l);
}
template <kv_gpu_together hook>
void kv_on_layer(void *s, const kv_gpu_layer *l) {
  KV_LAUNCH(s, kv_run_layer<hook>, 1, KV_BLOCK, *l);
}

#define KV_GPU_HOOKS(name, size, ...)                                          \
  extern "C" const kv_gpu_hooks kv_gpu_##name = {size, __VA_ARGS__}
/* ref/methods/NAME.h has been included: it has `params`. */
#define KV_GPU_METHOD(name, ...) KV_GPU_HOOKS(name, sizeof(params), __VA_ARGS__)

#endif
