/* SPDX-License-Identifier: Apache-2.0
 *
 * Oracle top-k: twin of ref/methods/oracle_topk.c. Every query head attends
 * the `budget` entries of largest logit. Cost: O(n) a query head and step.
 */
#include "gpu/parts/parts.cuh"
#include "ref/methods/oracle_topk.h"

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &q, uint8_t *mask) {
  const params *o = (const params *)at.params;
  kv_gpu_top(at, q.s, lane->n, o->budget, mask);
}

KV_GPU_METHOD(oracle_topk, .view = kv_on_view_apart<view, kv_gpu_no_room, 96>);
