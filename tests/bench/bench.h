/* SPDX-License-Identifier: Apache-2.0
 *
 * What the benchmarks of whole replays share: the folder that they work in,
 * running kvreplay and kvtrace, and the table. Whatever goes wrong ends the
 * program with one sentence; the folder goes with it.
 */
#ifndef KV_TESTS_BENCH_BENCH_H
#define KV_TESTS_BENCH_BENCH_H

#include "tests/bench/child.h"

enum { MOST_ROWS = 256, BENCH_MOST_RUNS = 15, BENCH_BUNDLED = 8 };

typedef struct bench {
  const char *build, *source; /* top folders */
  bool csv, small;
  int runs;         /* medians are of so many */
  char folder[256]; /* temporary */
} bench;

/* What is read of a row of kvreplay. */
typedef struct row {
  char spec[256];
  char journal[65], state[65], output[65];
  double rewritten; /* bytes of coded or merged rows and their metadata */
} row;

typedef struct row_set {
  int n;
  row row[MOST_ROWS];
} row_set;

/* How kvreplay is to run the trace of bench_synth. */
typedef struct replay {
  const char *methods; /* -m */
  int threads, prompt; /* prompt 0: the trace's own */
} replay;

/* --- bench.c ------------------------------------------------------------ */

/* A trace of the geometry of Llama-3.1-8B in place of the last one; record:
 * the model's layers, "8,24". */
void bench_synth(const bench *b, const char *record, int prompt, int steps);
/* Medians over b->runs; every row ran, and each run gave the same digests. */
child bench_replay(const bench *b, replay what, row_set *out);
/* Any command once, argv[0] below the build folder; exit code 0. */
child bench_command(const bench *b, char **argv);
/* The row of `all` with this row's specification has its digests. */
void bench_same(const row_set *all, const row *one);
/* Paths of the traces that ./quickstart replays, at most BENCH_BUNDLED, or of
 * one small trace; returns how many. pass.c */
typedef struct bench_path {
  char text[512];
} bench_path;
int bench_bundled(const bench *b, bench_path *path);
double bench_median(int n, double *x); /* sorts x */
void bench_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/* A line of the table. The goal is set for value / peer, for the value itself
 * where peer is 0: at least `low`, at most `high`; 0: no such goal. */
typedef struct line {
  const char *what, *unit;
  double value, peer, low, high;
} line;
void bench_theme(const bench *b, const char *theme, const char *peer);
void bench_line(const bench *b, line l);

/* The slope of least squares through the logarithms of n points: the exponent
 * with which y grows with x. growth.c */
double bench_slope(int n, const double *x, const double *y);

/* Seconds of a decode step on two threads: so many bytes of weights at the
 * bandwidth of reading, and the attention of lanes of 4 query heads over so
 * many tokens, fp16, d = 128. attend.c */
double bench_step(double weights, int lanes, int tokens);

/* Seconds of one thread for the attention of a step over 32,768 tokens of a
 * lane, fp16, d = 128, by 1 or 4 query heads. attend.c */
double bench_lane(int group);

/* --- the themes --------------------------------------------------------- */
void theme_pass(const bench *b);     /* pass.c: all methods, two threads */
void theme_memory(const bench *b);   /* memory.c: RssAnon and its bound */
void theme_growth(const bench *b);   /* growth.c: exponents of time */
void theme_compress(const bench *b); /* growth.c: merges of a long prompt */
void theme_attend(const bench *b);   /* attend.c: a kernel on two threads */
void theme_codes(const bench *b);    /* attend_codes.c: rows of codes */
void theme_compact(const bench *b);  /* compact.c: the page manager */
void theme_bundled(const bench *b);  /* pass.c: what ./quickstart replays */
void theme_serial(const bench *b);   /* serial.c: what no thread shares */
void theme_session(const bench *b);  /* session.c: against the replay */
void theme_shards(const bench *b);   /* pass.c: a sweep on four machines */
void theme_train(const bench *b);    /* train.c: against its products */
void theme_trigger(const bench *b);  /* trigger.c: hardkv asks its window */
void theme_latents(const bench *b);  /* latents.c: search, and made again */

#endif
