/* SPDX-License-Identifier: Apache-2.0
 *
 * Appends tokens to every lane of a layer, uncompressed, and empties what the
 * step will leave for the host.
 */
#include "gpu/shared/device.h"
#include "gpu/block/launch.h"

static __device__ void enter(const kv_gpu_layer &l, kv_gpu_lane *lane, int i,
                             uint32_t id) {
  kv_cell_ref raw = {0, 0, KV_RAW};
  lane->id[i] = id;
  lane->weight[i] = 1;
  if (lane->tier) lane->tier[i] = 0;
  if (lane->k) lane->k[i] = lane->v[i] = raw;
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
    enter(l, lane, n + j, (uint32_t)(first + j));
  __syncthreads();
  if (threadIdx.x == 0) {
    lane->n = n + count;
    lane->step = first + count;
    lane->n_verbs = lane->n_log = lane->n_joined = 0;
    if (l.shown) l.shown[blockIdx.x].n = 0;
    if (l.shown && blockIdx.x == 0) l.shown[l.lanes].n = 0;
  }
  if (threadIdx.x < KV_SLABS)
    lane->k_slab[threadIdx.x].n_fresh = lane->v_slab[threadIdx.x].n_fresh = 0;
}

extern "C" void kv_gpu_start_append(void *stream, const kv_gpu_layer *l) {
  KV_LAUNCH(stream, append, l->lanes, KV_BLOCK, *l);
}
