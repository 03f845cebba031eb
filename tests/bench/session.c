/* SPDX-License-Identifier: Apache-2.0
 *
 * A session fed from a trace against the replay of the same trace without
 * fidelity, in this process, on one thread: what it costs to copy tokens in
 * and views out. Digests are compared before times are.
 *
 * What is asked is less than what the machine adds to either. So the replay
 * reads K and V from memory taken anew, as a session's are: where pages come to
 * lie makes more of a difference than the session does. Of each the least time
 * is taken, and the replay is timed twice: its ratio to itself is the noise.
 */
#include "tests/bench/bench.h"

#include "sim/laws/law_walk.h"
#include "tests/support/feed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 9 };

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

static double timed(const kv_trace *t, const kv_spec *spec,
                    kv_session_digests *d) {
  kv_cell c = {0};
  kv_err e = {0};
  kv_law_case of = {.backend = &kv_backend_ref,
                    .trace = t,
                    .spec = spec,
                    .entries = t->shape.prompt_len / 10};
  kv_law_how how = {.threads = 1};
  double start = cpu();
  kv_rc rc = kv_law_replay(&of, &how, &c, &e);
  double end = cpu();
  if (rc) bench_fail("a replay: %s", e.text);
  *d = (kv_session_digests){c.result.journal, c.result.state, c.result.output};
  kv_cell_close(&c);
  return end - start;
}

static void *copied(const void *from, const kv_shape *p, int width) {
  size_t n = (size_t)p->n_kv_heads * (size_t)p->n_tokens * (size_t)width;
  void *to = kv_zalloc(n, kv_dtype_size(p->dtype));
  if (!to) bench_fail("not enough memory");
  return memcpy(to, from, n * kv_dtype_size(p->dtype));
}

/* The copying is not timed. */
static double walk(kv_trace *t, const char *text, kv_session_digests *d) {
  kv_layer_data *data = &t->layer[0].data;
  const void *k = data->k, *v = data->v;
  void *mine[2] = {copied(k, &t->shape, t->shape.d),
                   copied(v, &t->shape, t->shape.d_v)};
  kv_spec spec = {0};
  kv_err e = {0};
  if (kv_spec_parse(kv_method_at, text, &spec, &e)) bench_fail("%s", e.text);
  data->k = mine[0];
  data->v = mine[1];
  double seconds = timed(t, &spec, d);
  data->k = k;
  data->v = v;
  kv_spec_free(&spec);
  free(mine[0]);
  free(mine[1]);
  return seconds;
}

static void least(double *of, double seconds) {
  if (*of == 0 || seconds < *of) *of = seconds;
}

/* In turn, so that a busy machine is busy for all. */
static void against(const bench *b, kv_trace *t, const char *spec, float *out) {
  kv_session_digests of[2];
  double walked = 0, again = 0, fed = 0;
  char name[64];
  int runs = b->small || b->runs > RUNS ? b->runs : RUNS;
  for (int i = 0; i < runs; i++) {
    least(&walked, walk(t, spec, &of[0]));
    least(&fed, session(t, spec, out, &of[1]));
    least(&again, walk(t, spec, &of[0]));
    if (memcmp(&of[0], &of[1], sizeof of[0]) != 0)
      bench_fail("%s: a session has other digests than the replay", spec);
  }
  snprintf(name, sizeof name, "%s, 10%%, session", spec);
  bench_line(b, (line){.what = name,
                       .unit = "s",
                       .value = fed,
                       .peer = walked,
                       .high = 1.02});
  snprintf(name, sizeof name, "%s, 10%%, the run again", spec);
  bench_line(b,
             (line){.what = name, .unit = "s", .value = again, .peer = walked});
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
