/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of a decode step one thread does while the others wait: what closes
 * the step of a layer once every KV head is compressed - the hook
 * compress_layer, the account of bytes and records, the hash of the step's
 * records. It is a share of the time of a replay without fidelity on one
 * thread, where nothing waits; with fidelity the share is smaller.
 *
 * The engine calls compress_layer, its account and end_step in this order
 * (sim/engine/order.h), so a backend that is the reference but for a clock in
 * the first and the last of them sees all of it.
 */
#include "tests/bench/bench.h"

#include "sim/laws/law_walk.h"
#include "traces/trace/trace.h"
#include <stdio.h>
#include <time.h>

static double closing, closed; /* when it began; seconds in all */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void compress_layer(kv_store *s, kv_scratch *x) {
  closing = now();
  kv_backend_ref.compress_layer(s, x);
}

static void end_step(kv_store *s) {
  kv_backend_ref.end_step(s);
  closed += now() - closing;
}

static void measure(const bench *b, const kv_trace *t, const char *text,
                    double goal) {
  kv_backend clocked = kv_backend_ref;
  kv_spec spec = {0};
  kv_cell cell = {0};
  kv_err e = {0};
  clocked.compress_layer = compress_layer;
  clocked.end_step = end_step;
  if (kv_spec_parse(kv_method_at, text, &spec, &e)) bench_fail("%s", e.text);
  kv_law_case of = {.backend = &clocked,
                    .trace = t,
                    .spec = &spec,
                    .entries = t->shape.prompt_len / 10};
  closed = 0;
  double start = now();
  kv_rc rc = kv_law_replay(&of, &(kv_law_how){.threads = 1}, &cell, &e);
  double all = now() - start;
  if (rc) bench_fail("a replay: %s", e.text);
  bench_line(b, (line){.what = text,
                       .unit = "s",
                       .value = closed,
                       .peer = all,
                       .high = goal});
  kv_cell_close(&cell);
  kv_spec_free(&spec);
}

static void on_trace(const bench *b, int prompt, int steps, double goal) {
  static const char *const specs[] = {"dense", "streamingllm", "h2o",
                                      "quest", "zsmerge",      "kivi"};
  char path[512], title[128];
  kv_trace *t = NULL;
  kv_err e = {0};
  bench_synth(b, "8", prompt, steps);
  snprintf(path, sizeof path, "%s/trace.safetensors", b->folder);
  if (kv_trace_open(path, &t, &e)) bench_fail("%s", e.text);
  snprintf(title, sizeof title,
           "closing the steps of a layer, %d + %d tokens, -b 10%%", prompt,
           steps);
  bench_theme(b, title, "replay");
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    measure(b, t, specs[i], goal);
  kv_trace_close(t);
}

void theme_serial(const bench *b) {
  on_trace(b, 512, 512, 0); /* steps of 10 to 20 microseconds */
  if (!b->small) on_trace(b, 4096, 1024, 0.1);
}
