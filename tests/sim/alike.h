/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens made of small whole numbers, in kinds that return, as a trace of one
 * layer whose keys stand turned by their positions, and plain loops over all
 * pairs of them, which share nothing with sim/inspect.
 */
#ifndef KV_TESTS_ALIKE_H
#define KV_TESTS_ALIKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/inspect/similarity.h"
#include "traces/container/writer.h"

enum {
  ALIKE_KV = 2,
  ALIKE_D = 4,
  ALIKE_T = 90,
  ALIKE_WIDTH = 2 * ALIKE_KV * ALIKE_D
};

extern float alike_k[ALIKE_KV][ALIKE_T][ALIKE_D];
extern float alike_v[ALIKE_KV][ALIKE_T][ALIKE_D];
extern float alike_frequency[ALIKE_D / 2];
extern int alike_tokens; /* of them, in the trace */
void alike_fill(void);

/* A tensor in binary32 of a file in hand. */
void alike_declare(kv_st_writer *w, const char *name, int rank, uint64_t a,
                   uint64_t b, uint64_t c);
kv_trace *alike_made(bool frequencies);
/* What is found of them, by a file of weights or none. */
void alike_look_with(const char *weights, const kv_kernels *kernel, int threads,
                     kv_similarities *out);
void alike_look(const kv_kernels *kernel, int threads, kv_similarities *out);

/* Element i of token t's keys, then values; of the first `width` of them
 * squares, and squared distances or cosines, negative. */
double alike_element(int t, int i);
double alike_square(int t, int width);
double alike_between(int a, int b, int width, bool cosine);
/* The n-th nearest of those before t that stride takes; -1: there is none. */
int alike_nearest(int t, int stride, int n, int width, bool cosine);
/* The mean of the `most` nearest of a stride, and squares that it misses. */
void alike_mean(int t, int stride, int most, double *mean);
double alike_missed(int t, int stride, int most);

/* Alike but for rounding in binary64. */
void alike_near(double a, double b, const char *what);

#endif
