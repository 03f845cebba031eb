/* SPDX-License-Identifier: Apache-2.0
 *
 * A prompt that is read in chunks (prefill=N) costs what its rows read: the
 * rows behind the first chunk attend to what snapkv selected before their chunk
 * and to the chunk's tokens up to their own, and time grows with these pairs of
 * a row and an entry, whether there are more of them for a longer prompt, for
 * more that is selected or for longer chunks. What else a replay does goes by
 * subtraction: the same prompt read whole. In this process, on one thread,
 * without measures, whose exact rows cost more than all of it; of each the
 * least time of a few runs, in turns. The exponent is the slope of least
 * squares through the logarithms of time and pairs. A row reads 640 entries or
 * more, beside which what it costs by itself (its query, its part of digests)
 * is little.
 */
#include "tests/bench/bench.h"

#include "sim/laws/law_walk.h"
#include "traces/trace/trace.h"
#include <stdio.h>
#include <time.h>

enum { MOST = 4, STEPS = 16 };

typedef struct point {
  int tokens, chunk, selected;
} point;

/* Each grows one number; those of --small are a quarter. */
static const struct series {
  const char *what;
  int n;
  point at[MOST];
} all[] = {
    {"prompt",
     4,
     {{2048, 256, 512}, {4096, 256, 512}, {8192, 256, 512}, {16384, 256, 512}}},
    {"selected", 3, {{8192, 512, 1024}, {8192, 512, 2048}, {8192, 512, 4096}}},
    {"chunk", 3, {{9216, 1024, 512}, {12288, 4096, 512}, {16384, 8192, 512}}}};

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Entries that the rows behind the first chunk attend to, of one query head. */
static double pairs_of(point p) {
  double sum = 0;
  for (int r = p.chunk; r < p.tokens; r++) {
    int first = r / p.chunk * p.chunk;
    sum += (first < p.selected ? first : p.selected) + r - first + 1;
  }
  return sum;
}

/* chunk 0: the prompt is read whole. */
static double seconds(const kv_trace *t, int selected, int chunk) {
  char text[64], key[32] = "";
  kv_spec spec = {0};
  kv_cell c = {0};
  kv_err e = {0};
  kv_law_how how = {.threads = 1};
  if (chunk) snprintf(key, sizeof key, ":prefill=%d", chunk);
  snprintf(text, sizeof text, "snapkv:window=16%s", key);
  kv_rc rc = kv_spec_parse(kv_method_at, text, &spec, &e);
  kv_law_case of = {.backend = &kv_backend_ref,
                    .trace = t,
                    .spec = &spec,
                    .entries = selected};
  double start = cpu();
  if (!rc) rc = kv_law_replay(&of, &how, &c, &e);
  double end = cpu();
  if (rc) bench_fail("%s: %s", text, e.text);
  kv_cell_close(&c);
  kv_spec_free(&spec);
  return end - start;
}

/* The trace of a prompt of so many tokens, for kv_trace_close. */
static kv_trace *make(const bench *b, int tokens) {
  char path[512];
  kv_trace *t = NULL;
  kv_err e = {0};
  bench_synth(b, "8", tokens, STEPS);
  snprintf(path, sizeof path, "%s/trace.safetensors", b->folder);
  if (kv_trace_open(path, &t, &e)) bench_fail("%s", e.text);
  return t;
}

static void keep_least(double *least, double seconds, int run) {
  if (run == 0 || seconds < *least) *least = seconds;
}

/* added[n]: what chunks add to the same prompt read whole. All points of a
 * series take turns, so that a slow minute slows each of them. */
static void measure(const bench *b, int n, const point *at, double *added) {
  kv_trace *t[MOST];
  double whole[MOST], chunks[MOST];
  for (int i = 0; i < n; i++) t[i] = make(b, at[i].tokens);
  for (int r = 0; r < b->runs; r++)
    for (int i = 0; i < n; i++) {
      keep_least(whole + i, seconds(t[i], at[i].selected, 0), r);
      keep_least(chunks + i, seconds(t[i], at[i].selected, at[i].chunk), r);
    }
  for (int i = 0; i < n; i++) {
    added[i] = chunks[i] - whole[i];
    if (added[i] <= 0)
      bench_fail("%d tokens: chunks take no longer than the whole prompt; the "
                 "machine is too busy",
                 at[i].tokens);
    kv_trace_close(t[i]);
  }
}

static void grow(const bench *b, const struct series *s) {
  double pairs[MOST], added[MOST];
  point at[MOST];
  char text[96];
  for (int i = 0; i < s->n; i++) {
    int divide = b->small ? 4 : 1;
    at[i] = s->at[i];
    at[i] = (point){at[i].tokens / divide, at[i].chunk / divide,
                    at[i].selected / divide};
    pairs[i] = pairs_of(at[i]);
  }
  measure(b, s->n, at, added);
  for (int i = 0; i < s->n; i++) {
    snprintf(text, sizeof text, "%d tokens, chunks of %d, %d selected",
             at[i].tokens, at[i].chunk, at[i].selected);
    bench_line(b, (line){.what = text, .unit = "s", .value = added[i]});
  }
  snprintf(text, sizeof text, "exponent of what rows read, by the %s", s->what);
  bench_line(b, (line){.what = text,
                       .unit = "",
                       .value = bench_slope(s->n, pairs, added),
                       .low = 0.85,
                       .high = 1.15});
}

void theme_chunked(const bench *b) {
  bench_theme(b, "a prompt in chunks, snapkv, one layer, less the prompt whole",
              "");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) grow(b, all + i);
}
