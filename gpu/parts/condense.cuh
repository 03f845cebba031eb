/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging what would go into what stays: the twin of ref/parts/cascade.h. All
 * threads of the block call both functions together with the same arguments.
 */
#ifndef KV_GPU_CONDENSE_CUH
#define KV_GPU_CONDENSE_CUH

#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts_order.cuh"

/* a[list[i]] = -a[list[i]], i < n. Begins and ends with a barrier. */
KV_DEVICE void kv_gpu_turn_signs(int n, const int32_t *list, float *a) {
  __syncthreads();
  for (int i = kv_thread(); i < n; i += KV_BLOCK) a[list[i]] = -a[list[i]];
  __syncthreads();
}

/* Merges entries goes[0..m), from the least a on, into stays[0..n), from the
 * largest a on, in turn, weighted by a [lane->n] (a number an entry, >= 0); one
 * of weight 0 is not merged. What is merged is marked. Sorts both lists and
 * changes a. Nothing where n is 0. */
KV_DEVICE void kv_gpu_condense(kv_gpu_at &at, kv_gpu_lane *lane, int n,
                               int32_t *stays, int m, int32_t *goes, float *a) {
  if (n == 0) return;
  kv_gpu_order(at, a, n, stays);
  kv_gpu_turn_signs(m, goes, a);
  kv_gpu_order(at, a, m, goes);
  kv_gpu_turn_signs(m, goes, a);
  for (int i = 0; i < m; i++) {
    int into = stays[i % n], from = goes[i];
    float x = a[into], y = a[from];
    if (!(y > 0)) continue;
    kv_gpu_merge(at, lane, into, from, x, y);
    if (kv_thread() == 0) a[into] = kv_add(x, y);
    __syncthreads();
  }
}

#endif
