/* SPDX-License-Identifier: Apache-2.0
 *
 * Strided: twin of ref/methods/strided.c. A thread flags every KV_BLOCK-th
 * entry. Cost: O(n) a query head and step.
 */
#include "gpu/parts/parts.cuh"
#include "ref/methods/strided.h"

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &, uint8_t *mask) {
  const params *o = (const params *)at.params;
  int n = lane->n, s = n > o->budget ? stride_of(o, n) : 1;
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    mask[i] = strided_has(o, n, s, i);
}

KV_GPU_METHOD(strided, .view = kv_on_view_apart<view, kv_gpu_no_room, 96>);
