/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/parts/similar.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"
#include <string.h>

size_t kv_similar_work(const kv_shape *s) {
  return ((size_t)s->n_tokens + KV_PACK) * (size_t)s->d * sizeof(float);
}

float *kv_lane_keys(const kv_at *at, const kv_lane *lane) {
  size_t d = (size_t)at->shape->d;
  float *key = KV_TAKE(at->work, float, (size_t)lane->n *d);
  for (int i = 0; i < lane->n; i++) kv_lane_key(lane, i, key + (size_t)i * d);
  return key;
}

void kv_unit_keys(int n, int d, float *key) {
  for (int i = 0; i < n; i++, key += d) {
    float length = kv_add(kv_sqrt(kv_dot(key, key, d)), KV_NO_NORM);
    for (int x = 0; x < d; x++) key[x] = kv_div(key[x], length);
  }
}

void kv_similar(const kv_at *at, int n, const float *unit, float least,
                int64_t *sum, int32_t *last) {
  int d = at->shape->d;
  size_t used = at->work->used;
  float *pack = KV_TAKE(at->work, float, (size_t)KV_PACK *(size_t)d);
  memset(sum, 0, (size_t)n * sizeof *sum);
  for (int i = 0; i < n; i++) last[i] = -1;
  for (int j = 0; j < n; j += KV_PACK) {
    int columns = n - j < KV_PACK ? n - j : KV_PACK;
    at->kernels->similar(j, columns, d, unit, least, sum, last, pack);
  }
  at->work->used = used;
}
