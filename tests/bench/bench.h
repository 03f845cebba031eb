/* SPDX-License-Identifier: Apache-2.0
 *
 * What the benchmarks of whole replays share: running kvreplay and kvtrace in a
 * temporary folder, and the table of results. A theme is one of the benchmarks;
 * replay.c calls those that the command line names. Whatever goes wrong ends
 * the program with one sentence, and deletes the folder. tests/bench/README.md
 * has the goals.
 */
#ifndef KV_TESTS_BENCH_BENCH_H
#define KV_TESTS_BENCH_BENCH_H

#include "tests/bench/child.h"

enum {
  MOST_ROWS = 256,     /* rows of one replay */
  BENCH_MOST_RUNS = 15 /* of one measurement */
};

/* What the command line says. */
typedef struct bench {
  const char *build, *source; /* top folders */
  bool csv;                   /* print CSV, not a table */
  bool small;                 /* smaller sizes, to try the benchmark itself */
  int runs;                   /* that a median is of */
  char folder[256];           /* temporary */
} bench;

/* What is read of a row of kvreplay's JSON. */
typedef struct row {
  char spec[256];                          /* specification */
  char journal[65], state[65], output[65]; /* digests, in hex */
  double rewritten; /* kivi, zsmerge: bytes of rows and metadata at the end; of
                       others 0 */
} row;

typedef struct row_set {
  int n;
  row row[MOST_ROWS];
} row_set;

/* How kvreplay is to run the trace of bench_synth. */
typedef struct replay {
  const char *methods; /* argument of -m, under 256 bytes */
  int threads;
  int prompt; /* length in tokens; 0: the trace's own */
} replay;

/* --- bench.c ------------------------------------------------------------ */

/* Makes the trace: Llama-3.1-8B's geometry, a prompt of so many tokens and
 * decode steps, recorded the model's layers that `record` lists ("8,24").
 * Replaces the last one. */
void bench_synth(const bench *b, const char *record, int prompt, int steps);
/* Replays it b->runs times, at most BENCH_MOST_RUNS, at a budget of 10 %:
 * medians of time and memory. Every row must run, with the same digests in each
 * run. */
child bench_replay(const bench *b, replay what, row_set *out);
/* Runs any command once, argv[0] being relative to the build folder; it must
 * exit with 0. */
child bench_command(const bench *b, char **argv);
/* Ends the program unless the row of `all` with this row's specification has
 * the same digests. */
void bench_same(const row_set *all, const row *one);
/* The median of x[n], which it sorts. */
double bench_median(int n, double *x);
/* The exponent with which y grows with x: the slope of least squares through
 * the logarithms of both, all of which are above 0. */
double bench_slope(int n, const double *x, const double *y);
/* Ends the program with a sentence. */
void bench_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/* A line of the table. The goal is for value / peer, or for the value itself if
 * peer is 0: at least `low`, at most `high`; 0: no such goal. */
typedef struct line {
  const char *what, *unit;
  double value, peer, low, high;
} line;
/* Prints the head of a theme's part, peer being what values are compared with;
 * and a line. */
void bench_theme(const bench *b, const char *theme, const char *peer);
void bench_line(const bench *b, line l);

/* Seconds of a decode step on two threads: reading `weights` bytes at the
 * measured bandwidth, and the attention of `lanes` lanes of 4 query heads over
 * `tokens` tokens, fp16, d = 128. In attend.c. */
double bench_step(double weights, int lanes, int tokens);

/* Seconds of one thread for a step's attention of `group` (1 or 4) query heads
 * over 32,768 tokens of a lane, fp16, d = 128. In attend.c. */
double bench_lane(int group);

/* --- the themes: each measures and prints its lines ----------------------- */
void theme_pass(const bench *b);     /* pass.c: all methods, two threads */
void theme_memory(const bench *b);   /* memory.c: RssAnon and its bound */
void theme_growth(const bench *b);   /* growth.c: exponents of time */
void theme_compress(const bench *b); /* growth.c: merges of a long prompt */
void theme_attend(const bench *b);   /* attend.c: decode, one and two threads */
void theme_codes(const bench *b);    /* attend_codes.c: rows of codes */
void theme_compact(const bench *b);  /* compact.c: the page manager */
void theme_bundled(const bench *b);  /* pass.c: what ./quickstart replays */
void theme_serial(const bench *b);   /* serial.c: what no thread shares */
void theme_session(const bench *b);  /* session.c: against the replay */
void theme_shards(const bench *b);   /* pass.c: a sweep in four shards */
void theme_trigger(const bench *b);  /* trigger.c: hardkv asks its window */
void theme_queue(const bench *b);    /* queue.c: requests that wait */
void theme_slim(const bench *b);     /* slim.c: against a copy; column sums */
void theme_latents(const bench *b);  /* latents.c: search, and made again */
void theme_chunked(const bench *b);  /* chunked.c: what rows of a prompt read */
void theme_pack(const bench *b);     /* pack.c: kvtrace pack, and a copy */

#endif
