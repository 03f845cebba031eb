/* SPDX-License-Identifier: Apache-2.0
 *
 * Theme compress: what the compression of h2o, budget 4,096, costs against a
 * decode step of it (append, logits, view, attention, observation, observe):
 * with one token dropped at every step, and with 128 dropped after 128 steps, a
 * 128th of that. 256 lanes of groups of 4: 32 requests on a layer of 8 KV
 * heads.
 */
#ifndef KV_TESTS_BENCH_DEVICE_COMPRESS_CUH
#define KV_TESTS_BENCH_DEVICE_COMPRESS_CUH

#include "ref/methods/h2o.h"
#include "tests/bench/gpu/device_host.cuh"
#include "tests/bench/gpu/device_top.cuh"

typedef struct steps {
  lanes w;
  const kv_gpu_hooks *hooks;
  int count; /* tokens that enter before a compression */
} steps;

/* The next tokens; the journals of the step before are done with. */
static __global__ void next_step(kv_gpu_layer l, kv_gpu_clock *clock,
                                 int count) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  if (threadIdx.x) return;
  lane->n_verbs = lane->n_log = 0;
  if (blockIdx.x) return;
  clock->first += clock->count;
  clock->count = count;
  clock->row = clock->first + count - 1;
  clock->rows = 1;
}

static void step_run(void *self, void *stream) {
  const steps *s = (const steps *)self;
  const kv_device *dev = s->w.b->dev;
  const kv_gpu_layer *l = &s->w.layer;
  KV_LAUNCH(stream, next_step, (unsigned)l->lanes, KV_BLOCK, *l, s->w.clock,
            s->count);
  dev->append(stream, l, s->count);
  dev->logits(stream, l, 1, 0);
  if (s->hooks->view) s->hooks->view(stream, l);
  dev->name_views(stream, l, s->hooks->view != nullptr);
  dev->attend(stream, l, s->hooks->view != nullptr);
  dev->observation(stream, l, 1);
  s->hooks->observe(stream, l);
}

static void compress_run(void *self, void *stream) {
  const steps *s = (const steps *)self;
  s->hooks->compress_lane(stream, &s->w.layer);
}

static void steps_open(bench *b, const lanes_case *c, int budget, steps *s) {
  params o = {budget, budget / 2, DROP, 0, 0};
  lanes_open(b, c, &s->w);
  kv_gpu_layer *l = &s->w.layer;
  params *to = bench_take<params>(b, 1);
  b->dev->put(to, &o, sizeof o);
  l->params = to;
  l->needs.want = KV_SUM;
  l->needs.decode_rows = true;
  l->needs.columns = 1;
  l->needs.column[0] = KV_INT64;
  s->hooks = b->dev->hooks("h2o");
  if (!s->hooks) bench_fail("there is no h2o among the kernels");
}

/* n tokens with a random past in every lane; from here `count` enter. */
static void steps_begin(steps *s, int n, int count) {
  int64_t *sum = bench_room<int64_t>((size_t)n);
  lanes_begin(&s->w, n);
  for (int i = 0; i < s->w.layer.lanes; i++) {
    for (int j = 0; j < n; j++)
      sum[j] = (int64_t)(kv_mix((uint64_t)(i * n + j)) >> 24);
    s->w.b->dev->put(s->w.lane[i].column[0].i, sum, (size_t)n * sizeof *sum);
  }
  s->count = count;
  free(sum);
}

/* --- the check ---------------------------------------------------------- */

/* Adds a head's probabilities over n entries: arithmetic 4. */
static void host_observation(int n, const float *s, int64_t *sum) {
  float top = host_largest(n, s);
  int64_t mass = 0;
  for (int i = 0; i < n; i++) mass += kv_fix(kv_expm(kv_sub(s[i], top)));
  float share = kv_div(1.0f, kv_unfix(mass));
  for (int i = 0; i < n; i++)
    sum[i] += kv_fix(kv_mul(kv_expm(kv_sub(s[i], top)), share));
}

/* Ids and sums that stay of n entries after a step of lane i. */
static int host_compress(const steps *s, int i, int n, int budget, uint32_t *id,
                         int64_t *sum) {
  const lanes *w = &s->w;
  float *k = host_rows(w, w->layer.k, i, n),
        *logit = bench_room<float>((size_t)n);
  int past = n - budget / 2, heavy = budget - budget / 2, kept = 0;
  for (int j = 0; j < n; j++)
    sum[j] =
        j < n - 1 ? (int64_t)(kv_mix((uint64_t)(i * (n - 1) + j)) >> 24) : 0;
  for (int h = 0; h < w->lane[i].queries; h++) {
    size_t head = (size_t)(w->lane[i].first_head + h);
    float *q = bench_get(w->b, w->layer.q + head * LANES_D, LANES_D);
    host_logits(w, n, q, k, logit);
    host_observation(n, logit, sum);
    free(q);
  }
  for (int j = 0; j < past; j++) logit[j] = kv_unfix(sum[j]);
  for (int j = 0; j < n; j++)
    if (j >= past || host_in_top(past, logit, heavy, j)) {
      id[kept] = (uint32_t)j;
      sum[kept++] = sum[j];
    }
  free(logit);
  free(k);
  return kept;
}

static void compress_check(bench *b) {
  constexpr int BUDGET = 200, MOST = BUDGET + 1;
  lanes_case c = {2, 2, 2 * BUDGET, true};
  static uint32_t id[MOST];
  static int64_t sum[MOST];
  steps s;
  steps_open(b, &c, BUDGET, &s);
  steps_begin(&s, BUDGET, 1);
  step_run(&s, b->dev->stream());
  compress_run(&s, b->dev->stream());
  kv_gpu_lane *lane = bench_get(b, s.w.layer.lane, (size_t)c.lanes);
  for (int i = 0; i < c.lanes; i++) {
    int kept = host_compress(&s, i, MOST, BUDGET, id, sum);
    if (lane[i].n != kept)
      bench_fail("h2o keeps %d entries, not %d", lane[i].n, kept);
    uint32_t *got = bench_get(b, lane[i].id, (size_t)kept);
    int64_t *column = bench_get(b, lane[i].column[0].i, (size_t)kept);
    bench_same("entries after h2o", got, id, (size_t)kept * sizeof *id);
    bench_same("sums after h2o", column, sum, (size_t)kept * sizeof *sum);
    free(column);
    free(got);
  }
  free(lane);
  lanes_close(&s.w);
}

/* --- timing ------------------------------------------------------------- */

static void compress_time(bench *b) {
  constexpr int BUDGET = 4096, EVERY = 128;
  lanes_case c = {b->quick ? 32 : 256, 4, 2 * BUDGET, true};
  static_assert((WARM_UPS + REPEATS) * EVERY < BUDGET, "tokens suffice");
  steps s;
  steps_open(b, &c, BUDGET, &s);
  lap step = {compress_run, step_run, &s, false};
  lap compress = {step_run, compress_run, &s, false};
  lap rare = {step_run, compress_run, &s, false};
  steps_begin(&s, BUDGET, 1);
  double whole = bench_seconds(b, &step);
  steps_begin(&s, BUDGET, 1);
  double each = bench_seconds(b, &compress);
  steps_begin(&s, BUDGET, EVERY);
  double seldom = bench_seconds(b, &rare) / EVERY;
  char name[64];
  table_theme("compression of h2o, budget 4,096 / decode step", "step");
  snprintf(name, sizeof name, "every step, %d lanes", c.lanes);
  table_line(b, {name, "us", each * 1e6, whole * 1e6, 0, GOAL_COMPRESS});
  snprintf(name, sizeof name, "every %d steps, a step's share", EVERY);
  table_line(b, {name, "us", seldom * 1e6, whole * 1e6, 0, GOAL_RARE});
  lanes_close(&s.w);
}

#endif
