/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeded numbers: sim/train/draw.h. SplitMix64 (Steele, Lea and Flood 2014).
 */
#include "sim/train/draw.h"

static uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

uint64_t kv_draw_next(kv_draw *d) {
  d->state += UINT64_C(0x9e3779b97f4a7c15);
  return mixed(d->state);
}

kv_draw kv_draw_open(uint64_t seed, uint64_t stream) {
  kv_draw d = {mixed(seed)};
  d.state = mixed(kv_draw_next(&d) ^ stream);
  return d;
}

/* 0 .. n - 1; n is far below 2^32, so that the bias does not show. */
static int below(kv_draw *d, int n) {
  return (int)(((kv_draw_next(d) >> 32) * (uint64_t)n) >> 32);
}

/* Four numbers of 16 bits a draw. */
static int64_t four(kv_draw *d) {
  uint64_t x = kv_draw_next(d);
  return (int64_t)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) +
                   (x >> 48));
}

void kv_draw_normal(kv_draw *d, double deviation, size_t n, float *out) {
  for (size_t i = 0; i < n; i++) {
    int64_t sum = four(d) + four(d) + four(d);
    out[i] = (float)(((double)sum - 6.0 * 65535) / 65536 * deviation);
  }
}

void kv_draw_order(kv_draw *d, int n, int *out) {
  for (int i = 0; i < n; i++) {
    int j = below(d, i + 1);
    out[i] = out[j];
    out[j] = i;
  }
}
