/* SPDX-License-Identifier: Apache-2.0
 *
 * KIVI on a device: the twin of ref/methods/kivi.c, which defines what it does.
 *
 * Allowed local: kv_run_compress<compress_lane>,
 *   what a hook or a format passes by reference, once an entry settled
 */
#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/methods/kivi.h"

static __device__ void code_keys(kv_gpu_at &at, kv_gpu_lane *lane,
                                 const params *o, int32_t *list) {
  int n = lane->n, group = o->group, first = kv_gpu_first_full(lane->k, n);
  int end = first + (n - first) / o->residual * o->residual;
  for (int i = first; i < end; i += group) {
    for (int j = kv_thread(); j < group; j += KV_BLOCK) list[j] = i + j;
    __syncthreads();
    kv_gpu_recode(at, lane, group, list, kv_gpu_coded(at, KEYS), KV_SAME);
  }
}

static __device__ void code_values(kv_gpu_at &at, kv_gpu_lane *lane,
                                   int32_t *list, int end) {
  for (int i = kv_gpu_first_full(lane->v, end); i < end; i++) {
    if (kv_thread() == 0) list[0] = i; /* not &i: registers have no address */
    __syncthreads();
    kv_gpu_recode(at, lane, 1, list, KV_SAME, kv_gpu_coded(at, VALUES));
  }
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int32_t *list = KV_GPU_TAKE(at, int32_t, o->group);
  int n = lane->n;
  code_keys(at, lane, o, list);
  code_values(at, lane, list, n - o->residual);
}

KV_GPU_METHOD(kivi, .compress_lane = kv_on_compress_lane<compress_lane>);
