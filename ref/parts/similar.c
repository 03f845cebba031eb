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

/* Scales each of n keys to length 1. */
static void unit_keys(int n, int d, float *key) {
  for (int i = 0; i < n; i++, key += d) {
    float length = kv_add(kv_sqrt(kv_dot(key, key, d)), KV_NO_NORM);
    for (int x = 0; x < d; x++) key[x] = kv_div(key[x], length);
  }
}

/* sum_i and last_i of n keys of length 1. */
static void similar(const kv_at *at, int n, const float *unit, float least,
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

/* Subtracts each pair's cosine from the sum of the key that the pair spares. */
static void spare(const kv_spare *how, int n, int d, const float *unit,
                  const int32_t *last, int64_t *sum) {
  for (int i = 0; i < n; i++) {
    int j = last[i], from = kv_spared(how, i, &j);
    if (from < 0) continue;
    float s =
        kv_dot(unit + (size_t)i * (size_t)d, unit + (size_t)j * (size_t)d, d);
    sum[from] -= kv_fix_cosine(s);
  }
}

float *kv_repeated(const kv_at *at, int n, float *key, const kv_spare *how) {
  int d = at->shape->d;
  float *r = KV_TAKE(at->work, float, n);
  size_t used = at->work->used;
  int64_t *sum = KV_TAKE(at->work, int64_t, n);
  int32_t *last = KV_TAKE(at->work, int32_t, n);
  unit_keys(n, d, key);
  similar(at, n, key, how->least, sum, last);
  spare(how, n, d, key, last, sum);
  for (int j = 0; j < n; j++) r[j] = kv_div(kv_unfix_cosine(sum[j]), (float)n);
  kv_probabilities(at, n, r);
  at->work->used = used;
  return r;
}
