/* SPDX-License-Identifier: Apache-2.0
 *
 * The twin of the method of tests/made/mad.h: its compression as a device
 * function. Threads agree on the hash, so they agree on the verb.
 */
#include "gpu/lane/method.cuh"
#include "gpu/lane/recode.cuh"
#include "ref/ground/formula.h"
#include "tests/made/mad.h"

static __device__ void code_four(kv_gpu_at &at, kv_gpu_lane *lane, int from) {
  int32_t list[MAD_CODED], n = 0;
  for (int i = from; i < lane->n && n < MAD_CODED; i++)
    if (lane->k[i].format == KV_RAW && lane->v[i].format == KV_RAW)
      list[n++] = i;
  if (n < MAD_CODED) return;
  kv_gpu_entries all = {n, 0, list}, later = {n - 1, 0, list + 1};
  kv_gpu_recode(at, lane, all, n, kv_gpu_coded(at, 0), KV_SAME);
  kv_gpu_recode(at, lane, later, 1, KV_SAME, kv_gpu_coded(at, 1));
}

static __device__ void some_go(kv_gpu_at &at, kv_gpu_lane *lane, uint64_t x,
                               int stays) {
  int n = lane->n;
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    keep[i] = i == stays || kv_mix(x + (uint64_t)i) % 8;
  __syncthreads();
  kv_gpu_keep_mask(at, lane, keep);
}

/* Another order, one less. */
static __device__ void turn_round(kv_gpu_at &at, kv_gpu_lane *lane, int by) {
  int n = lane->n;
  int32_t *list = KV_GPU_TAKE(at, int32_t, n);
  for (int i = 1 + kv_thread(); i < n; i += KV_BLOCK)
    list[i - 1] = (i + by) % n;
  __syncthreads();
  kv_gpu_keep(at, lane, n - 1, list);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  uint64_t x = kv_mix((uint64_t)(at.layer->layer * 64 + lane->lane) * 4096 +
                      (uint64_t)at.step);
  int n = lane->n, a = (int)(x >> 8 & 0xffff) % n;
  int b = (int)(x >> 24 & 0xffff) % n;
  if (n < 6) return;
  switch (x % 6) {
  case 0:
    some_go(at, lane, x, a);
    break;
  case 1:
    if (a != b)
      kv_gpu_merge(at, lane, a, b, (float)lane->weight[a],
                   (float)lane->weight[b]);
    break;
  case 2:
    kv_gpu_move(at, lane, a, b);
    break;
  case 3:
    kv_gpu_retier(at, lane, 1, &a, (int)(x >> 40 & 0xff) % MAD_CLASSES);
    break;
  case 4:
    turn_round(at, lane, a);
    break;
  default:
    code_four(at, lane, a / 2);
  }
}

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &q, uint8_t *mask) {
  int n = lane->n, head = lane->first_head + q.head;
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    mask[i] = i == n - 1 || mad_sees(head, at.step, i);
  __syncthreads();
}

KV_GPU_HOOKS(mad, 0, .view = kv_on_view<view>,
             .compress_lane = kv_on_compress_lane<compress_lane>);
