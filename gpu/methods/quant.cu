/* SPDX-License-Identifier: Apache-2.0
 *
 * Quant on a device: the twin of ref/methods/quant.c, which defines what it
 * does.
 *
 * Allowed local: kv_run_compress<compress_lane>,
 *   what a hook or a format passes by reference, once an entry settled
 */
#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/methods/quant.h"

static __device__ int coding_of(const kv_gpu_at &at, const params *o,
                                int side) {
  int i = o->coding[side][kv_by_layer_at(at.layer->layer)];
  return i == AS_IT_CAME ? (int)KV_SAME : kv_gpu_coded(at, i);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int32_t *list = KV_GPU_TAKE(at, int32_t, 1);
  int k = coding_of(at, o, KEYS), v = coding_of(at, o, VALUES);
  int end = lane->n - o->residual;
  if (k == KV_SAME && v == KV_SAME) return;
  const kv_cell_ref *side = k == KV_SAME ? lane->v : lane->k;
  for (int i = kv_gpu_first_full(side, end); i < end; i++) {
    if (kv_thread() == 0) list[0] = i; /* not &i: registers have no address */
    __syncthreads();
    kv_gpu_recode(at, lane, 1, list, k, v);
  }
}

KV_GPU_METHOD(quant, .compress_lane = kv_on_compress_lane<compress_lane>);
