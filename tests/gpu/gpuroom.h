/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a test of kernels on the executor, and the arrays of a layer that
 * attention writes. C++; cmocka.h is included before. A test derives its world
 * from gpuroom, zeroed, and calls give_all at its end.
 */
#ifndef KV_TESTS_GPU_ROOM_H
#define KV_TESTS_GPU_ROOM_H

#include "gpu/emu/emu.h"
#include "gpu/shared/lane.h"

#include <string.h>

/* What was allocated and must be freed. */
struct gpuroom {
  void *taken[128];
  int n_taken;
};

/* n elements of device memory, every byte 0xAA; the test fails if there is
 * none, or no place to record it. */
template <class T, class N> static T *take(gpuroom *r, N n) {
  void *p = kv_emu_take((size_t)n * sizeof(T));
  assert_non_null(p);
  assert_true(r->n_taken < (int)(sizeof r->taken / sizeof *r->taken));
  r->taken[r->n_taken++] = p;
  return (T *)p;
}

/* The same, zeroed. */
template <class T, class N> static T *take_zeros(gpuroom *r, N n) {
  return (T *)memset(take<T>(r, n), 0, (size_t)n * sizeof(T));
}

static inline void give_all(gpuroom *r) {
  while (r->n_taken) kv_emu_give(r->taken[--r->n_taken]);
}

/* By l->shape and l->lanes: sets stride and chunks, and takes q and s of a tile
 * of one row, and what attention writes: entries, top, mass, part, out, and
 * bad, which says that all logits are finite. */
static inline void take_attention(gpuroom *r, kv_gpu_layer *l) {
  size_t heads = (size_t)l->shape.n_heads, d_v = (size_t)l->shape.d_v;
  l->stride = (l->shape.n_tokens + 15) / 16 * 16;
  l->chunks = (l->shape.n_tokens + KV_GPU_CHUNK - 1) / KV_GPU_CHUNK;
  size_t chunks = heads * (size_t)l->chunks;
  l->q = take<float>(r, heads * (size_t)l->shape.d);
  l->s = take<float>(r, heads * (size_t)l->stride);
  l->entries = take<int32_t>(r, heads);
  l->top = take<float>(r, chunks);
  l->mass = take<float>(r, chunks);
  l->part = take<float>(r, chunks * d_v);
  l->out = take<float>(r, heads * (d_v + 1));
  l->bad = take<uint64_t>(r, l->lanes);
  memset(l->bad, 0xff, (size_t)l->lanes * sizeof *l->bad);
}

#endif
