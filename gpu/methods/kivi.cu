/* SPDX-License-Identifier: Apache-2.0
 *
 * KIVI's twin: the hooks of ref/methods/kivi.c, which says what it does.
 */
#include "gpu/lane/method.cuh"
#include "gpu/lane/verbs.cuh"
#include "ref/methods/kivi.h"

/* Entries below `end` that are still full, from the oldest on: looked for
 * from the youngest, a block of threads at a time. */
static __device__ int first_full(const kv_cell_ref *side, int end) {
  for (int high = end; high > 0; high -= KV_BLOCK) {
    int i = high - 1 - kv_thread();
    bool coded = i >= 0 && side[i].format != KV_RAW;
    int last = (int)kv_block_max(coded ? (uint32_t)i + 1 : 0);
    if (last > 0) return last;
  }
  return 0;
}

static __device__ void code_keys(kv_gpu_at &at, kv_gpu_lane *lane,
                                 const params *o, int32_t *list) {
  int n = lane->n, group = o->group, first = first_full(lane->k, n);
  int end = first + (n - first) / o->residual * o->residual;
  for (int i = first; i < end; i += group) {
    for (int j = kv_thread(); j < group; j += KV_BLOCK) list[j] = i + j;
    __syncthreads();
    kv_gpu_recode(at, lane, group, list, kv_gpu_coded(at, KEYS), KV_SAME);
  }
}

static __device__ void code_values(kv_gpu_at &at, kv_gpu_lane *lane,
                                   int32_t *list, int end) {
  for (int i = first_full(lane->v, end); i < end; i++) {
    if (kv_thread() == 0) list[0] = i; /* not &i: registers have no address */
    __syncthreads();
    kv_gpu_recode(at, lane, 1, list, KV_SAME, kv_gpu_coded(at, VALUES));
  }
}

static __device__ void settle_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int32_t *list = KV_GPU_TAKE(at, int32_t, o->group);
  int n = lane->n;
  code_keys(at, lane, o, list);
  code_values(at, lane, list, n - o->residual);
}

KV_GPU_METHOD(kivi, .settle_lane = kv_on_settle_lane<settle_lane>);
