/* SPDX-License-Identifier: Apache-2.0
 *
 * What the benchmarks of the row kernels (tests/bench/kernels.c) share: the
 * sets that are timed and compared, data, and a line of the table. Each part
 * compares the timed set with the portable one bit for bit before it times
 * anything, and returns 0 where they differ. One thread; not enough memory
 * ends the program with one sentence.
 */
#ifndef KV_TESTS_BENCH_ROWBENCH_H
#define KV_TESTS_BENCH_ROWBENCH_H

#include "ref/kernels/kernels.h"

enum { D = 128 }; /* head dimension of everything that is timed */

/* The set that is timed, and the one that it must agree with. */
extern const kv_kernels *kernels, *portable;

/* Zeroed memory. */
void *bench_take(size_t count, size_t size);
/* n elements, -1 to 1, full mantissas before they are narrowed. */
void bench_fill(kv_dtype type, size_t n, void *out);
/* The addresses of n rows of so many bytes each. */
const void **bench_rows(const void *base, size_t n, size_t bytes);
/* A line: value, its share of a ceiling in per cent (0: none), and the share
 * that is the goal (0: none). */
void bench_report(const char *what, double value, const char *unit,
                  double ceiling, double goal);

/* The parts; peak: FMA peak of the set in GFLOP/s, 0 where it is not known. */
int bench_prompts(double peak); /* rows_prompt.c */
int bench_decodes(void);        /* rows_decode.c */
int bench_weighs(double peak);  /* rows_weigh.c */
int bench_codes(void);          /* rows_codes.c */
int bench_similar(double peak); /* rows_similar.c */

#endif
