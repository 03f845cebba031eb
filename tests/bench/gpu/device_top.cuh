/* SPDX-License-Identifier: Apache-2.0
 *
 * Theme top: kv_gpu_top of 131,072 scores a lane, 256 lanes, a block a lane.
 *
 * Passes over the scores, from gpu/block/radix.cuh: the highest 11 bits of a
 * key leave about an eighth of these scores open, more than are listed; the
 * next 11 bits leave a handful; the third read writes all flags and lists
 * those, and the rest is done on the list. The ceiling is reading memory once a
 * pass; the byte of a flag that is written a score is not counted.
 */
#ifndef KV_TESTS_BENCH_DEVICE_TOP_CUH
#define KV_TESTS_BENCH_DEVICE_TOP_CUH

#include "gpu/parts/parts.cuh"
#include "tests/bench/gpu/device_table.cuh"

constexpr int TOP_PASSES = 3;

typedef struct tops {
  bench *b;
  int lanes, n, k;
  float *score;  /* [lanes][n] */
  uint8_t *keep; /* [lanes][n] */
} tops;

static __global__ void KV_REGISTERS(96)
    top_of_lanes(const float *score, int n, int k, uint8_t *keep) {
  kv_gpu_at at = {};
  at.step = 1;
  size_t first = (size_t)blockIdx.x * (size_t)n;
  kv_gpu_top(at, score + first, n, k, keep + first);
}

/* Sums of probabilities as they are ranked: 40 random bits, rounded once.
 * steps > 0: so many values only. */
KV_FN float top_score(size_t i, int steps) {
  int64_t sum = (int64_t)(kv_mix((uint64_t)i ^ 0x746f70) >> 24);
  return kv_unfix(steps ? sum % steps << 30 : sum);
}

static __global__ void top_draw(float *score, size_t n, int steps) {
  size_t step = (size_t)gridDim.x * KV_BLOCK;
  for (size_t i = (size_t)blockIdx.x * KV_BLOCK + threadIdx.x; i < n; i += step)
    score[i] = top_score(i, steps);
}

static void top_open(bench *b, int lanes, int n, int k, int steps, tops *t) {
  size_t all = (size_t)lanes * (size_t)n;
  *t = {b, lanes, n, k, bench_take<float>(b, all), bench_take<uint8_t>(b, all)};
  KV_LAUNCH(b->dev->stream(), top_draw, bench_grid(all), KV_BLOCK, t->score,
            all, steps);
}

static void top_run(void *self, void *stream) {
  const tops *t = (const tops *)self;
  KV_LAUNCH(stream, top_of_lanes, (unsigned)t->lanes, KV_BLOCK, t->score, t->n,
            t->k, t->keep);
}

/* Is entry i among the k first of n? By counting those before it. */
static bool host_in_top(int n, const float *s, int k, int i) {
  int before = 0;
  for (int j = 0; j < n && before < k; j++)
    before +=
        kv_key(s[j]) > kv_key(s[i]) || (kv_key(s[j]) == kv_key(s[i]) && j < i);
  return before < k;
}

static void top_check(bench *b) {
  static const int steps[] = {0, 97, 1};
  for (int some : steps) {
    tops t;
    top_open(b, 3, 1500, 400, some, &t);
    size_t all = (size_t)t.lanes * (size_t)t.n;
    top_run(&t, b->dev->stream());
    float *s = bench_get(b, t.score, all);
    uint8_t *got = bench_get(b, t.keep, all);
    uint8_t *want = bench_room<uint8_t>(all);
    for (int l = 0; l < t.lanes; l++)
      for (int i = 0; i < t.n; i++)
        want[l * t.n + i] = host_in_top(t.n, s + l * t.n, t.k, i);
    bench_same("top", got, want, all);
    free(want);
    free(got);
    free(s);
    bench_give(b);
  }
}

/* The same data sorted by CUB; 0: not here. device_sort.cuh */
static double sort_seconds(const tops *t);

static void top_time(bench *b) {
  tops t;
  top_open(b, b->quick ? 32 : 256, 131072, 4096, 0, &t);
  lap what = {top_run, top_run, &t, false};
  double bytes = 4.0 * t.lanes * t.n, seconds = bench_seconds(b, &what);
  double sorted = sort_seconds(&t);
  char name[64], peer[32];
  snprintf(peer, sizeof peer, "read/%d", TOP_PASSES);
  table_theme("top 4,096 of 131,072 scores a lane", peer);
  snprintf(name, sizeof name, "scores, %d lanes", t.lanes);
  table_line(b, {name, "GB/s", bytes / seconds / 1e9, b->read / TOP_PASSES,
                 GOAL_TOP, 0});
  if (sorted > 0)
    table_line(b, {"top / CUB's segmented radix sort", "ms", seconds * 1e3,
                   sorted * 1e3, 0, 0});
  bench_give(b);
}

#endif
