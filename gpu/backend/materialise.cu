/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes coded values that a step's attention reads, once each, into fp32
 * rows. If a method has views of its own, the heads of a lane may attend
 * different entries and read V in turn; each would decode what it sees. Here
 * every coded entry in the view of any head of its lane is decoded once, one
 * block for each chunk of 128 entries. Keys do not need this: a block of
 * gpu/backend/logits.cu reads an entry's key once for up to 8 heads.
 */
#include "gpu/block/block.cuh"
#include "gpu/shared/device.h"
#include "gpu/lane/entry.cuh"

static __global__ void materialise(const __grid_constant__ kv_gpu_layer l) {
  KV_SHARED(kv_gpu_row, row, KV_BLOCK);
  KV_SHARED(int, wanted, KV_BLOCK);
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  int base = (int)blockIdx.x * KV_BLOCK, j = kv_thread(), i = base + j;
  int n = lane->n - base < KV_BLOCK ? lane->n - base : KV_BLOCK;
  size_t d_v = (size_t)l.shape.d_v;
  if (n <= 0) return;
  wanted[j] =
      i < lane->n && kv_gpu_coded_value(lane, i) && kv_gpu_seen(l, lane, i);
  if (wanted[j]) row[j] = kv_gpu_value_row(l, lane, i);
  __syncthreads();
  float *to = kv_gpu_materialised_row(l, lane, base);
  for (size_t at = (size_t)j; at < (size_t)n * d_v; at += KV_BLOCK)
    if (wanted[at / d_v])
      to[at] = kv_gpu_element(row[at / d_v], (int)(at % d_v));
}

extern "C" void kv_gpu_start_materialise(void *stream, const kv_gpu_layer *l) {
  dim3 grid((unsigned)l->chunks, (unsigned)l->lanes);
  if (l->materialised) KV_LAUNCH(stream, materialise, grid, KV_BLOCK, *l);
}
