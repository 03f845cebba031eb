/* SPDX-License-Identifier: Apache-2.0
 *
 * A session fed from a trace against the replay of the same trace without
 * fidelity, in this process, on one thread: what it costs to copy tokens in
 * and views out. Digests are compared before times are.
 */
#include "tests/bench/bench.h"

#include "sim/law_walk.h"
#include "tests/feed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RUNS = 15 };

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The prompt at once and decode steps with outputs, layer by layer. */
static kv_rc feed(kv_session *s, const kv_trace *t, float *out, kv_err *e) {
  const kv_shape *p = &t->shape;
  kv_rc rc = KV_OK;
  for (int i = 0; i < t->n_layers; i++) {
    if (!rc) rc = feed_block(s, t, i, 0, p->prompt_len, NULL, e);
    for (int at = p->prompt_len; !rc && at < p->n_tokens; at++)
      rc = feed_block(s, t, i, at, 1, out, e);
  }
  return rc;
}

static double session(const kv_trace *t, const char *spec, float *out,
                      kv_session_digests *d) {
  kv_session_shape x = feed_shape(t);
  kv_session *s = NULL;
  kv_err e = {0};
  double start = cpu();
  kv_rc rc = kv_session_open(&x, spec, "10%", t->shape.prompt_len, &s, &e);
  if (!rc) rc = feed(s, t, out, &e);
  if (!rc) rc = kv_session_digest(s, d, &e);
  kv_session_close(s);
  if (rc) bench_fail("a session of %s: %s", spec, e.text);
  double end = cpu();
  feed_free(&x);
  return end - start;
}

static double walk(const kv_trace *t, const char *text, kv_session_digests *d) {
  kv_spec spec = {0};
  kv_cell c = {0};
  kv_err e = {0};
  kv_rc rc = kv_spec_parse(kv_method_at, text, &spec, &e);
  kv_law_case of = {.backend = &kv_backend_ref,
                    .trace = t,
                    .spec = &spec,
                    .entries = t->shape.prompt_len / 10};
  kv_law_how how = {.threads = 1};
  double start = cpu();
  if (!rc) rc = kv_law_replay(&of, &how, &c, &e);
  double end = cpu();
  if (rc) bench_fail("a replay of %s: %s", text, e.text);
  *d = (kv_session_digests){c.result.journal, c.result.state, c.result.output};
  kv_cell_close(&c);
  kv_spec_free(&spec);
  return end - start;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(int n, double *x) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  return x[n / 2];
}

/* In turn, so that a busy machine is busy for both. */
static void against(const bench *b, const kv_trace *t, const char *spec,
                    float *out) {
  kv_session_digests of[2];
  double ours[MOST_RUNS], theirs[MOST_RUNS];
  char name[64];
  for (int i = 0; i < b->runs; i++) {
    theirs[i] = walk(t, spec, &of[0]);
    ours[i] = session(t, spec, out, &of[1]);
    if (memcmp(&of[0], &of[1], sizeof of[0]) != 0)
      bench_fail("%s: a session has other digests than the replay", spec);
  }
  snprintf(name, sizeof name, "%s, 10%%, session", spec);
  bench_line(b, (line){.what = name,
                       .unit = "s",
                       .value = median(b->runs, ours),
                       .peer = median(b->runs, theirs),
                       .high = 1.02});
}

void theme_session(const bench *b) {
  static const char *const specs[] = {"dense", "h2o", "quest", "streamingllm"};
  char path[512];
  kv_trace *t = NULL;
  kv_err e = {0};
  bench_synth(b, "8", b->small ? 1024 : 4096, b->small ? 256 : 1024);
  snprintf(path, sizeof path, "%s/trace.safetensors", b->folder);
  if (kv_trace_open(path, &t, &e)) bench_fail("%s", e.text);
  size_t floats = (size_t)t->shape.n_heads * (size_t)t->shape.d_v;
  float *out = kv_zalloc(floats, sizeof *out);
  if (!out) bench_fail("not enough memory");
  bench_theme(b, "a session fed from a trace of 1 layer, one thread", "run");
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    against(b, t, specs[i], out);
  free(out);
  kv_trace_close(t);
}
