/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits that a method makes itself, of queries it chooses, outside of the
 * observation that its needs ask for: filters of other layers, and estimates.
 */
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "ref/parts/parts.h"

static bool is_raw(const kv_lane *l, int i) {
  return !l->k || l->k[i].format == KV_RAW;
}

/* Names the keys of entry i and of those behind it that are held alike, at most
 * n; returns how many. */
static int name_keys(const kv_lane *l, int i, int n, const void **key,
                     float *rows, kv_dtype *type) {
  bool raw = is_raw(l, i);
  int count = 0;
  *type = raw ? l->shape->dtype : KV_F32;
  for (; count < n && is_raw(l, i + count) == raw; count++) {
    float *row = rows + (size_t)count * (size_t)l->shape->d;
    if (!raw) kv_lane_key(l, i + count, row);
    key[count] = raw ? kv_lane_raw_key(l, l->id[i + count]) : row;
  }
  return count;
}

void kv_key_logits(const kv_at *at, const kv_lane *lane, int m, const float *q,
                   int first, int n, float scale, float *s, size_t lds) {
  assert(!lane->needs->reindex && "keys are read where they were recorded");
  size_t used = at->work->used, d = (size_t)lane->shape->d;
  const void **key = KV_TAKE(at->work, const void *, KV_PACK);
  float *pack = KV_TAKE(at->work, float, KV_PACK *d);
  float *rows = KV_TAKE(at->work, float, KV_PACK *d);
  for (int i = 0, count; i < n; i += count) {
    kv_dtype type;
    int most = n - i < KV_PACK ? n - i : KV_PACK;
    count = name_keys(lane, first + i, most, key, rows, &type);
    at->kernels->logits(m, count, (int)d, q, d, key, type, scale, s + i, lds,
                        pack);
  }
  at->work->used = used;
}

void kv_logits_finite(const kv_at *at, int n, float *s) {
  bool finite;
  at->kernels->max_finite(s, n, &finite);
  for (int i = 0; !finite && i < n; i++)
    if (!kv_finite(s[i])) s[i] = 0;
}

void kv_probabilities(const kv_at *at, int n, float *s) {
  float most = at->kernels->max(s, n);
  int64_t mass = at->kernels->exp_sum(s, most, n, s);
  float each = 1.0f / kv_unfix(mass);
  for (int i = 0; i < n; i++) s[i] = s[i] * each;
}
