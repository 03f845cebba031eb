/* SPDX-License-Identifier: Apache-2.0
 *
 * Oracle top-p: twin of ref/methods/oracle_topp.c. Every query head attends
 * the fewest entries that hold the share p of its probability.
 * Cost: O(n) a query head and step.
 */
#include "gpu/parts/parts.cuh"
#include "ref/methods/oracle_topp.h"

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &q, uint8_t *mask) {
  const params *o = (const params *)at.params;
  kv_gpu_top_p(at, q.s, lane->n, o->p, mask);
}

KV_GPU_METHOD(oracle_topp, .view = kv_on_view_apart<view, kv_gpu_no_room>);
