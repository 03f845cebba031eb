/* SPDX-License-Identifier: Apache-2.0
 *
 * Palu on a device: the twin of ref/methods/palu.c, which defines what is
 * computed. Tokens are coded by the kernels of gpu/parts/lowrank.cuh.
 *
 * Allowed cas: kv_run_directed_code<palu_rule>,
 *   nvcc's path for shared memory, where the word of what failed never is
 */
#include "gpu/parts/lowrank.cuh"

extern "C" {
#include "ref/methods/palu.h"
}

struct palu_rule {
  static __device__ const kv_lowrank &how(const kv_gpu_at &at) {
    return ((const params *)at.params)->by;
  }
  /* How many entries of a lane are coded. */
  static __device__ int from(const kv_gpu_at &at) {
    return *(const int32_t *)kv_gpu_own(at, at.layer->lane);
  }
  static __device__ int host(const kv_gpu_at &) { return -1; }
  static __device__ void done(const kv_gpu_at &at, const kv_gpu_lane *lane,
                              int end) {
    if (kv_thread() == 0) *(int32_t *)kv_gpu_own(at, lane) = end;
  }
};

KV_GPU_METHOD(palu, .compress_layer = kv_gpu_start_lowrank<palu_rule>);
