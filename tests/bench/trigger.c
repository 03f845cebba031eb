/* SPDX-License-Identifier: Apache-2.0
 *
 * A trigger of hardkv: the moment when a lane of 32,768 tokens asks its window
 * of 128 queries, in a group of 4, and is rewritten, on one thread, by the
 * method's own hooks. Beside it the logits alone, as the method makes them,
 * and beside those the FMA peak. Keys and queries are of a synthetic trace.
 */
#include "tests/bench/bench.h"

#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "ref/methods/hardkv.h"
#include "sim/spec/spec.h"
#include "tests/bench/ceiling.h"
#include "traces/option/kernels.h"
#include "traces/trace/trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 32768, WINDOW = 128, RECORDED = 8 };

typedef struct lot {
  const kv_method *method;
  kv_trace *trace;
  kv_shape shape; /* all of the trace is prompt */
  kv_spec spec;
  kv_needs needs;
  kv_lane lane;
  kv_work work;
  kv_at at;
  kv_rows rows;       /* the window's */
  float *q;           /* [WINDOW][heads][d] */
  float *temperature; /* [WINDOW] that were found; reused where `again` */
  float *s;           /* logits of KV_POLL_ROWS queries */
  bool again;
} lot;

static void good(kv_rc rc, const kv_err *e) {
  if (rc) bench_fail("%s", e->text);
}

/* --- a lane as it is before its prompt compresses
 * -----------------------------
 */

/* The last WINDOW queries of the first KV head's group. */
static void take_queries(lot *l) {
  const kv_layer_data *data = &l->trace->layer[0].data;
  size_t d = (size_t)l->shape.d, heads = (size_t)kv_group(&l->shape);
  size_t bytes = d * kv_dtype_size(data->q_dtype);
  for (int r = 0; r < WINDOW; r++)
    for (size_t h = 0; h < heads; h++) {
      int token = l->shape.n_tokens - WINDOW + r;
      size_t from =
          h * (size_t)data->n_rows + (size_t)kv_layer_row(data, token);
      l->at.kernels->widen(data->q_dtype, (const char *)data->q + from * bytes,
                           d, l->q + ((size_t)r * heads + h) * d);
    }
  l->rows = (kv_rows){.first = l->shape.n_tokens - WINDOW,
                      .rows = WINDOW,
                      .heads = (int)heads,
                      .places = (int)heads,
                      .entries = l->shape.n_tokens,
                      .stride = (size_t)l->shape.n_tokens,
                      .q = l->q};
}

static void take_memory(lot *l) {
  size_t each = (size_t)kv_group(&l->shape) * (size_t)l->shape.d;
  size_t lds = (size_t)kv_group(&l->shape) * (size_t)l->shape.n_tokens;
  l->work.size = KV_WORK(l->shape.n_tokens) + l->needs.work;
  l->work.base = kv_zalloc(1, l->work.size);
  l->q = kv_zalloc(WINDOW * each, sizeof *l->q);
  l->temperature = kv_zalloc(WINDOW, sizeof *l->temperature);
  l->s = kv_zalloc(KV_POLL_ROWS * lds, sizeof *l->s);
  if (!l->work.base || !l->q || !l->temperature || !l->s)
    bench_fail("not enough memory for a lane");
}

static void open_lot(const bench *b, const char *spec, lot *l) {
  char path[512];
  kv_err e;
  *l = (lot){.method = kv_method_named("hardkv")};
  if ((size_t)snprintf(path, sizeof path, "%s/trace.safetensors", b->folder) >=
      sizeof path)
    bench_fail("the path %s is too long", b->folder);
  good(kv_trace_open(path, &l->trace, &e), &e);
  l->shape = l->trace->shape;
  l->shape.prompt_len = l->shape.n_tokens;
  good(kv_spec_parse(kv_method_at, spec, &l->spec, &e), &e);
  good(l->method->open(&l->shape, l->spec.params, &l->needs, &e), &e);
  take_memory(l);
  l->at = (kv_at){.shape = &l->shape,
                  .needs = &l->needs,
                  .params = l->spec.params,
                  .step = l->shape.n_tokens,
                  .work = &l->work,
                  .method = l->method};
  good(kv_choose_kernels(&l->at.kernels, &e), &e);
  good(kv_lane_init(&l->lane, &l->shape, &l->needs, l->at.kernels, 0, &e), &e);
  good(kv_lane_room_init(&l->lane.room, l->shape.n_tokens, &e), &e);
  take_queries(l);
}

static void close_lot(lot *l) {
  kv_lane_room_release(&l->lane.room);
  kv_lane_release(&l->lane);
  kv_spec_free(&l->spec);
  kv_trace_close(l->trace);
  free(l->work.base), free(l->q), free(l->temperature), free(l->s);
}

static float *temperatures_of(const lot *l) {
  return (float *)(void *)((char *)l->lane.own +
                           kv_hard_temperatures(&l->shape, l->at.params));
}

static void fill_lane(lot *l) {
  kv_lane_begin(&l->lane, &l->needs, &l->trace->layer[0].data);
  kv_lane_append(&l->lane, 0, l->shape.n_tokens);
  l->work.used = 0;
  l->method->observe(&l->at, &l->lane, &l->rows);
  if (l->again)
    memcpy(temperatures_of(l), l->temperature, WINDOW * sizeof(float));
}

/* --- what is timed ------------------------------------------------------- */

static void run_trigger(void *what) {
  lot *l = what;
  fill_lane(l);
  l->work.used = 0;
  l->method->compress_lane(&l->at, &l->lane);
  kv_sweep(&l->lane);
}

static void run_logits(void *what) {
  lot *l = what;
  int heads = kv_group(&l->shape), n = l->shape.n_tokens;
  size_t each = (size_t)heads * (size_t)l->shape.d;
  l->work.used = 0;
  for (int r = 0; r < WINDOW; r += KV_POLL_ROWS)
    kv_key_logits(&l->at, &l->lane, KV_POLL_ROWS * heads,
                  l->q + (size_t)r * each, 0, n, l->shape.scale, l->s,
                  (size_t)n);
}

/* Looks at a row's masses; temperatures are kept for whoever uses them again.
 */
static double count_looks(lot *l) {
  const params *o = l->at.params;
  int n = l->shape.n_tokens;
  fill_lane(l);
  l->work.used = 0;
  int32_t *entry = KV_TAKE(&l->work, int32_t, n);
  for (int i = 0; i < n; i++) entry[i] = i;
  memset(l->temperature, 0, WINDOW * sizeof *l->temperature);
  kv_poll p = kv_poll_ask(&l->at, &l->lane, &o->v, n, entry, NULL, l->q,
                          l->temperature);
  return (double)p.looks / WINDOW;
}

static void time_rule(const bench *b, const char *spec, double logits,
                      double most) {
  lot l;
  open_lot(b, spec, &l);
  double looks = count_looks(&l);
  double first = best_alone(run_trigger, &l);
  bench_line(b, (line){.what = spec, .unit = "entries", .value = l.lane.n});
  bench_line(b, (line){.what = "  temperatures looked for",
                       .unit = "ms",
                       .value = first * 1e3,
                       .peer = logits * 1e3,
                       .high = most});
  bench_line(
      b,
      (line){.what = "  looks at masses, a row", .unit = "", .value = looks});
  l.again = true;
  bench_line(b, (line){.what = "  temperatures used again",
                       .unit = "ms",
                       .value = best_alone(run_trigger, &l) * 1e3,
                       .peer = logits * 1e3,
                       .high = 2});
  close_lot(&l);
}

void theme_trigger(const bench *b) {
  lot l;
  char layer[8];
  snprintf(layer, sizeof layer, "%d", RECORDED);
  bench_synth(b, layer, b->small ? TOKENS / 8 : TOKENS, 0);
  bench_theme(b, "a trigger of hardkv, 128 queries, a group of 4, one thread",
              "beside");
  open_lot(b, "hardkv:upper=2048", &l);
  fill_lane(&l);
  double peak = 0, now, logits = best_alone(run_logits, &l);
  for (int i = 0; i < 8; i++)
    if ((now = fma_peak(l.at.kernels->name)) > peak) peak = now;
  double work =
      2.0 * WINDOW * kv_group(&l.shape) * l.shape.d * l.shape.n_tokens;
  bench_line(b, (line){.what = "its logits, and the FMA peak",
                       .unit = "GFLOP/s",
                       .value = work * 1e-9 / logits,
                       .peer = peak,
                       .low = 0.5});
  close_lot(&l);
  time_rule(b, "hardkv:upper=2048", logits, 6);
  time_rule(b, "hardkv:upper=2048:calibrate=gradient", logits, 6);
  time_rule(b, "hardkv:upper=2048:adapter=vanilla", logits, 0);
}
