/* SPDX-License-Identifier: Apache-2.0
 *
 * What the benchmarks of the row kernels share; kernels.c calls the parts, one
 * a file. Each part first compares the timed set of kernels with the portable
 * one, bit for bit, and returns 0 if they differ, 1 after its lines are
 * printed. One thread; without memory the program ends with one sentence.
 */
#ifndef KV_TESTS_BENCH_ROWBENCH_H
#define KV_TESTS_BENCH_ROWBENCH_H

#include "ref/kernels/kernels.h"

enum { D = 128 }; /* head dimension of everything that is timed */

/* The set that is timed, and the one that it must agree with. */
extern const kv_kernels *kernels, *portable;

/* Zeroed memory, for free(). */
void *bench_take(size_t count, size_t size);
/* Fills out with n elements of a type, random in [-1, 1]. */
void bench_fill(kv_dtype type, size_t n, void *out);
/* The addresses of n rows of `bytes` bytes each from base on, for free(). */
const void **bench_rows(const void *base, size_t n, size_t bytes);
/* Prints a line: value and unit, its share of `ceiling` (0: none), and the
 * share that is the goal, in percent (0: none). */
void bench_report(const char *what, double value, const char *unit,
                  double ceiling, double goal);

/* The parts. peak: fma_peak of the timed set, GFLOP/s; 0: not known. */
int bench_prompts(double peak); /* rows_prompt.c */
int bench_decodes(void);        /* rows_decode.c */
int bench_weighs(double peak);  /* rows_weigh.c */
int bench_codes(void);          /* rows_codes.c */
int bench_similar(double peak); /* rows_similar.c */

#endif
