/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces, runs and the table. Contract: tests/bench/bench.h.
 */
#include "tests/bench/bench.h"
#include "ref/ground/err.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_fail(const char *format, ...) {
  va_list v;
  va_start(v, format);
  fputs("replay: ", stderr);
  vfprintf(stderr, format, v);
  fputc('\n', stderr);
  va_end(v);
  exit(KV_INTERNAL);
}

/* --- processes ---------------------------------------------------------- */

static void path_in(const char *folder, const char *name, size_t n, char *out) {
  if ((size_t)snprintf(out, n, "%s/%s", folder, name) >= n)
    bench_fail("the path %s/%s is too long", folder, name);
}

/* What the last command said, before we say that it failed. */
static void repeat(const char *path) {
  char text[4096];
  FILE *f = fopen(path, "r");
  if (!f) return;
  fwrite(text, 1, fread(text, 1, sizeof text, f), stderr);
  fclose(f);
}

child bench_command(const bench *b, char **argv) {
  char program[512], out[512], err[512], *name = argv[0];
  child c;
  path_in(b->build, name, sizeof program, program);
  path_in(b->folder, "out", sizeof out, out);
  path_in(b->folder, "err", sizeof err, err);
  argv[0] = program;
  if (!child_run(argv, out, err, &c)) bench_fail("cannot start %s", program);
  argv[0] = name;
  if (c.code == 0) return c;
  repeat(err);
  bench_fail("%s %s ended with code %d", program, argv[1], c.code);
}

void bench_synth(const bench *b, const char *record, int prompt, int steps) {
  char path[512], p[16], t[16], layers[128];
  path_in(b->folder, "trace.safetensors", sizeof path, path);
  snprintf(p, sizeof p, "%d", prompt);
  snprintf(t, sizeof t, "%d", prompt + steps);
  if ((size_t)snprintf(layers, sizeof layers, "%s", record) >= sizeof layers)
    bench_fail("too many layers to record: %s", record);
  remove(path);
  char *argv[] = {
      "traces/kvtrace", "synth",    "--like", "llama-3.1-8b", "--record",
      layers,           "--tokens", t,        "--prompt-len", p,
      "--out",          path,       NULL};
  bench_command(b, argv);
}

/* --- rows --------------------------------------------------------------- */

static void copy_text(const json_t *j, const char *key, size_t n, char *out) {
  const char *text = json_string_value(json_object_get(j, key));
  if (!text) bench_fail("a row has no text \"%s\"", key);
  if ((size_t)snprintf(out, n, "%s", text) >= n)
    bench_fail("a row's \"%s\" is too long", key);
}

static void read_row(const json_t *j, row *r) {
  char status[16];
  json_t *end = json_object_get(json_object_get(j, "bytes"), "end");
  copy_text(j, "status", sizeof status, status);
  copy_text(j, "spec", sizeof r->spec, r->spec);
  if (strcmp(status, "ok") != 0 && strcmp(status, "fixed") != 0)
    bench_fail("%s did not run: its status is %s", r->spec, status);
  copy_text(j, "journal", sizeof r->journal, r->journal);
  copy_text(j, "state", sizeof r->state, r->state);
  copy_text(j, "output", sizeof r->output, r->output);
  if (!end) bench_fail("the row of %s has no bytes", r->spec);
  r->rewritten = json_number_value(json_object_get(end, "payload")) +
                 json_number_value(json_object_get(end, "metadata"));
  if (!strstr(r->spec, "kivi") && !strstr(r->spec, "zsmerge")) r->rewritten = 0;
}

static void read_rows(const bench *b, row_set *out) {
  char path[512];
  json_error_t e;
  json_t *j;
  path_in(b->folder, "out", sizeof path, path);
  FILE *f = fopen(path, "r");
  if (!f) bench_fail("cannot read %s", path);
  out->n = 0;
  while (out->n < MOST_ROWS &&
         (j = json_loadf(f, JSON_DISABLE_EOF_CHECK, &e)) != NULL) {
    read_row(j, &out->row[out->n++]);
    json_decref(j);
  }
  fclose(f);
  if (out->n == 0) bench_fail("kvreplay printed no row: %s", e.text);
}

void bench_same(const row_set *all, const row *one) {
  for (int i = 0; i < all->n; i++) {
    const row *r = &all->row[i];
    if (strcmp(r->spec, one->spec) != 0) continue;
    if (strcmp(r->journal, one->journal) == 0 &&
        strcmp(r->state, one->state) == 0 &&
        strcmp(r->output, one->output) == 0)
      return;
    bench_fail("%s: two runs differ in their digests", one->spec);
  }
  bench_fail("%s is missing in another run", one->spec);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_median(int n, double *x) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

double bench_slope(int n, const double *x, const double *y) {
  double sx = 0, sy = 0, xx = 0, xy = 0;
  for (int i = 0; i < n; i++) {
    double a = log(x[i]), b = log(y[i]);
    sx += a;
    sy += b;
    xx += a * a;
    xy += a * b;
  }
  return (n * xy - sx * sy) / (n * xx - sx * sx);
}

child bench_replay(const bench *b, replay what, row_set *out) {
  char path[512], methods[256], threads[16], prompt[16];
  double wall[BENCH_MOST_RUNS], cpu[BENCH_MOST_RUNS], anon[BENCH_MOST_RUNS];
  int n = b->runs < BENCH_MOST_RUNS ? b->runs : BENCH_MOST_RUNS;
  static row_set again; /* too large for a stack */
  path_in(b->folder, "trace.safetensors", sizeof path, path);
  snprintf(methods, sizeof methods, "%s", what.methods);
  snprintf(threads, sizeof threads, "%d", what.threads);
  snprintf(prompt, sizeof prompt, "%d", what.prompt);
  char *argv[] = {"sim/kvreplay",
                  "run",
                  path,
                  "--methods",
                  methods,
                  "--budget",
                  "10%",
                  "--jobs",
                  threads,
                  "--format",
                  "jsonl",
                  "--quiet",
                  what.prompt ? "--prompt-len" : NULL,
                  prompt,
                  NULL};
  for (int i = 0; i < n; i++) {
    child c = bench_command(b, argv);
    wall[i] = c.wall;
    cpu[i] = c.cpu;
    anon[i] = c.anon;
    read_rows(b, i ? &again : out);
    for (int r = 0; i && r < again.n; r++) bench_same(out, &again.row[r]);
  }
  return (child){.wall = bench_median(n, wall),
                 .cpu = bench_median(n, cpu),
                 .anon = bench_median(n, anon)};
}

/* --- the table ---------------------------------------------------------- */

void bench_theme(const bench *b, const char *theme, const char *peer) {
  double load[3] = {0, 0, 0};
  if (b->csv) return;
  getloadavg(load, 3);
  printf("\n%s (load average %.2f)\n%-44s %10s %-8s %10s %7s  goal\n", theme,
         load[0], "", "", "", peer, "ratio");
}

static void print_csv(line l, double ratio, const char *met) {
  printf("\"%s\",%.6g,%s,", l.what, l.value, l.unit);
  if (l.peer > 0)
    printf("%.6g,%.4g,", l.peer, ratio);
  else
    printf(",,");
  printf(l.low > 0 ? "%.4g," : ",", l.low);
  printf(l.high > 0 ? "%.4g," : ",", l.high);
  puts(met);
}

void bench_line(const bench *b, line l) {
  double ratio = l.peer > 0 ? l.value / l.peer : l.value;
  bool goal = l.low > 0 || l.high > 0;
  bool good =
      (l.low <= 0 || ratio >= l.low) && (l.high <= 0 || ratio <= l.high);
  const char *met = !goal ? "" : good ? "met" : "missed";
  if (b->csv) {
    print_csv(l, ratio, met);
  } else {
    printf("%-44s %10.2f %-8s", l.what, l.value, l.unit);
    if (l.peer > 0)
      printf(" %10.2f %7.2f ", l.peer, ratio);
    else if (goal)
      printf("%20s", "");
    if (l.low > 0) printf(" >= %.2f", l.low);
    if (l.high > 0) printf(" <= %.2f", l.high);
    printf(goal ? " %s\n" : "\n", met);
  }
  fflush(stdout);
}
