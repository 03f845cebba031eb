/* SPDX-License-Identifier: Apache-2.0
 *
 * KIVI on a device: the twin of ref/methods/kivi.c, which defines what it does.
 *
 * Allowed local: kv_run_compress<compress_lane>,
 *   what a hook or a format passes by reference, once an entry settled
 */
#include "gpu/lane/recode.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/methods/kivi.h"

/* Codes the whole stretches of keys; values before the last `residual`. */
static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int n = lane->n, end = n - o->residual;
  int k = kv_gpu_first_full(lane->k, n), v = kv_gpu_first_full(lane->v, end);
  kv_gpu_entries keys = {(n - k) / o->residual * o->residual, k, nullptr};
  kv_gpu_entries values = {v < end ? end - v : 0, v, nullptr};
  kv_gpu_recode(at, lane, keys, o->group, kv_gpu_coded(at, KEYS), KV_SAME);
  kv_gpu_recode(at, lane, values, 1, KV_SAME, kv_gpu_coded(at, VALUES));
}

KV_GPU_METHOD(kivi, .compress_lane = kv_on_compress_lane<compress_lane>);
