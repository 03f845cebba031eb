/* SPDX-License-Identifier: Apache-2.0
 *
 * Appends tokens to every lane of a layer, uncompressed, and empties the
 * records that the step will leave for the host. Each token takes a row of the
 * lane's pools, and its K and V are copied there: from then on nothing reads
 * them in the uploaded trace. The host adds the pages before tokens enter. Rows
 * of a store of regular indices are copied by rewrite.cu.
 */
#include "gpu/block/async.h"
#include "gpu/lane/entry.cuh"
#include "gpu/shared/device.h"

#include <assert.h>

/* --- entries ------------------------------------------------------------ */

/* The row that the j-th token takes: one that is free, last freed first, or
 * the next that was never taken. */
static __device__ int32_t row_for(const kv_gpu_raw &pool, int j) {
  int left = (pool.fixed ? 0 : pool.n_free) - j;
  return left > 0 ? pool.free[left - 1] : pool.used - left;
}

static __device__ void enter(const kv_gpu_layer &l, kv_gpu_lane *lane, int i,
                             int j, uint32_t id) {
  lane->id[i] = id;
  lane->weight[i] = 1;
  if (lane->tier) lane->tier[i] = 0;
  lane->k[i] = kv_cell_ref{row_for(lane->k_raw, j), 0, KV_RAW};
  lane->v[i] = kv_cell_ref{row_for(lane->v_raw, j), 0, KV_RAW};
  if (lane->last) lane->last[i] = id;
  for (int c = 0; c < l.needs.columns; c++) {
    if (l.needs.column[c] == KV_INT64)
      lane->column[c].i[i] = 0;
    else
      lane->column[c].f[i] = 0;
  }
}

static __global__ void append(kv_gpu_layer l) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  int n = lane->n, first = l.clock->first, count = l.clock->count;
  for (int j = (int)threadIdx.x; j < count; j += KV_BLOCK)
    enter(l, lane, n + j, j, (uint32_t)(first + j));
  __syncthreads();
  if (threadIdx.x == 0) {
    lane->n = n + count;
    lane->step = first + count;
    lane->wrote = lane->n_verbs = lane->n_log = lane->n_joined = 0;
    kv_gpu_take_rows(&lane->k_raw, count);
    kv_gpu_take_rows(&lane->v_raw, count);
    if (l.shown) l.shown[blockIdx.x].n = 0;
    if (l.shown && blockIdx.x == 0) l.shown[l.lanes].n = 0;
  }
  if (threadIdx.x < KV_SLABS)
    lane->k_slab[threadIdx.x].n_fresh = lane->v_slab[threadIdx.x].n_fresh = 0;
}

/* --- rows --------------------------------------------------------------- */

/* Copies one side of the tokens that entered, in units of T: the threads of a
 * lane's blocks take turns. `from`: the side in the trace. */
template <class T>
static __device__ void copy_as(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                               const kv_gpu_raw &pool, const kv_cell_ref *side,
                               const char *from) {
  int first = l.clock->first, count = l.clock->count, units;
  units = (int)(pool.size / sizeof(T));
  side += lane->n - count;
  from += ((size_t)lane->kv_head * (size_t)l.shape.n_tokens + (size_t)first) *
          pool.size;
  int64_t all = (int64_t)count * units, way = (int64_t)gridDim.y * KV_BLOCK;
  for (int64_t x = (int64_t)blockIdx.y * KV_BLOCK + threadIdx.x; x < all;
       x += way) {
    int32_t row = side[x / units].block;
    assert(pool.page[row / KV_GPU_PAGE] &&
           "the host adds pages before tokens enter");
    T *to = (T *)kv_gpu_raw_at(pool, row);
    to[x % units] = ((const T *)from)[x];
  }
}

static __device__ void copy_side(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                 const kv_gpu_raw &pool,
                                 const kv_cell_ref *side, const char *from) {
  if (pool.size % sizeof(kv_piece) == 0)
    copy_as<kv_piece>(l, lane, pool, side, from);
  else
    copy_as<uint16_t>(l, lane, pool, side, from);
}

static __global__ void copy_rows(const __grid_constant__ kv_gpu_layer l) {
  const kv_gpu_lane *lane = &l.lane[blockIdx.x];
  if (lane->k_raw.fixed) return;
  copy_side(l, lane, lane->k_raw, lane->k, l.k);
  copy_side(l, lane, lane->v_raw, lane->v, l.v);
}

/* Blocks a lane that copy so many tokens. */
static unsigned blocks_for(int count) {
  int blocks = (count + KV_BLOCK - 1) / KV_BLOCK;
  return (unsigned)(blocks < 64 ? blocks : 64);
}

extern "C" void kv_gpu_start_append(void *stream, const kv_gpu_layer *l,
                                    int count) {
  dim3 grid((unsigned)l->lanes, blocks_for(count));
  KV_LAUNCH(stream, append, l->lanes, KV_BLOCK, *l);
  KV_LAUNCH(stream, copy_rows, grid, KV_BLOCK, *l);
}
