/* SPDX-License-Identifier: Apache-2.0
 *
 * Theme attend: decode attention, fp16, d = 128, dense views, 32,768 tokens a
 * lane, groups of 1, 4 and 8 query heads, as one graph of logits, views and
 * attention. The bytes counted are K and V of the views, read once; the
 * ceiling is the device's own copy, read and written bytes.
 */
#ifndef KV_TESTS_BENCH_DEVICE_ATTEND_CUH
#define KV_TESTS_BENCH_DEVICE_ATTEND_CUH

#include "gpu/block/half.h"
#include "tests/bench/gpu/device_host.cuh"
#include "tests/bench/gpu/device_table.cuh"

static void attend_run(void *self, void *stream) {
  const lanes *w = (const lanes *)self;
  const kv_device *dev = w->b->dev;
  dev->logits(stream, &w->layer, 1, 0);
  dev->name_views(stream, &w->layer, 0);
  dev->attend(stream, &w->layer, 0);
}

/* Every half and its float, one at a time and two in a word. */
static __global__ void all_halves(float *one, float *two) {
  uint32_t h = 2 * (blockIdx.x * KV_BLOCK + threadIdx.x);
  one[h] = kv_half((uint16_t)h);
  one[h + 1] = kv_half((uint16_t)(h + 1));
  kv_two_halves((h + 1) << 16 | h, two + h);
}

/* The device's conversion is the reference's, except for NaN. */
static void check_halves(bench *b) {
  size_t all = 65536;
  float *one = bench_take<float>(b, all), *two = bench_take<float>(b, all);
  KV_LAUNCH(b->dev->stream(), all_halves, (unsigned)(all / 2 / KV_BLOCK),
            KV_BLOCK, one, two);
  float *x = bench_get(b, one, all), *y = bench_get(b, two, all);
  for (uint32_t h = 0; h < all; h++) {
    uint32_t want = kv_bits(kv_from_f16((uint16_t)h));
    if ((h & 0x7fff) > 0x7c00) continue;
    if (kv_bits(x[h]) != want || kv_bits(y[h]) != want)
      bench_fail("half 0x%04x is another float on the device", (unsigned)h);
  }
  free(y);
  free(x);
  bench_give(b);
}

static void attend_check(bench *b) {
  static const int group[] = {1, 4, 8};
  check_halves(b);
  for (int g : group) {
    lanes_case c = {2, g, 300, false};
    lanes w;
    lanes_open(b, &c, &w);
    lanes_begin(&w, c.tokens);
    attend_run(&w, b->dev->stream());
    for (int i = 0; i < c.lanes; i++) {
      float *k = host_rows(&w, w.layer.k, i, c.tokens);
      float *v = host_rows(&w, w.layer.v, i, c.tokens);
      host_same_lane(&w, "attention", i, c.tokens, k, v);
      free(v);
      free(k);
    }
    lanes_close(&w);
  }
}

/* So many that K and V are at least 1 GiB and 8 times the L2. */
static int attend_lanes(const bench *b, int tokens) {
  size_t lane = (size_t)tokens * LANES_D * 4, all = (size_t)1 << 30;
  if (8 * b->l2 > all) all = 8 * b->l2;
  if (b->quick) all /= 8;
  return (int)((all + lane - 1) / lane);
}

static double attend_seconds(lanes *w) {
  lap what = {attend_run, attend_run, w, false};
  return bench_seconds(w->b, &what);
}

static void attend_time(bench *b) {
  const struct {
    int group;
    double goal;
  } cases[] = {{1, GOAL_ATTEND}, {4, GOAL_ATTEND}, {8, GOAL_ATTEND_8}};
  table_theme("decode attention, K and V read once / copy", "copy");
  for (auto at : cases) {
    char what[64];
    lanes w;
    lanes_case c = {attend_lanes(b, 32768), at.group, 32768, false};
    double bytes = (double)c.lanes * c.tokens * LANES_D * 4;
    lanes_open(b, &c, &w);
    lanes_begin(&w, c.tokens);
    snprintf(what, sizeof what, "attention fp16, %d lanes, group %d", c.lanes,
             at.group);
    table_line(b, {what, "GB/s", bytes / attend_seconds(&w) / 1e9, b->copy,
                   at.goal, 0});
    lanes_close(&w);
  }
}

#endif
