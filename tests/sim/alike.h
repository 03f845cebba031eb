/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of sim/inspect's search for similar tokens: ALIKE_T tokens made of
 * small whole numbers, of a few kinds that return, as a trace of one layer with
 * RoPE, and the same figures by plain loops over all pairs of tokens. What goes
 * wrong fails the running test.
 */
#ifndef KV_TESTS_ALIKE_H
#define KV_TESTS_ALIKE_H

#include "sim/inspect/similarity.h"
#include "tests/support/test.h"
#include "traces/container/writer.h"

enum {
  ALIKE_KV = 2,                        /* KV heads */
  ALIKE_D = 4,                         /* elements of a key and of a value */
  ALIKE_T = 90,                        /* tokens */
  ALIKE_WIDTH = 2 * ALIKE_KV * ALIKE_D /* of a token's vector: keys, values */
};

/* Keys before RoPE, values, RoPE frequencies; alike_fill sets them. */
extern float alike_k[ALIKE_KV][ALIKE_T][ALIKE_D];
extern float alike_v[ALIKE_KV][ALIKE_T][ALIKE_D];
extern float alike_frequency[ALIKE_D / 2];
extern int alike_tokens; /* how many of the tokens are in the trace */
void alike_fill(void);

/* Declares an F32 tensor of shape [a], [a][b] or [a][b][c], by rank, in a file
 * that the test writes. */
void alike_declare(kv_st_writer *w, const char *name, int rank, uint64_t a,
                   uint64_t b, uint64_t c);
/* Writes and opens the trace, with or without frequencies; for kv_trace_close.
 */
kv_trace *alike_made(bool frequencies);
/* What sim/inspect finds in it, with a file of weights (NULL: none). */
void alike_look_with(const char *weights, const kv_kernels *kernel, int threads,
                     kv_similarities *out);
void alike_look(const kv_kernels *kernel, int threads, kv_similarities *out);

/* By plain loops, of the vectors of tokens (keys before RoPE, then values) of
 * which the first `width` elements count: element i of t; the sum of squares of
 * t; the squared distance of a and b, or minus their cosine. */
double alike_element(int t, int i);
double alike_square(int t, int width);
double alike_between(int a, int b, int width, bool cosine);
/* The n-th nearest (from 0) to t of those tokens before it that are among the
 * first 8 or multiples of stride; -1: there are not as many. */
int alike_nearest(int t, int stride, int n, int width, bool cosine);
/* The mean vector of the `most` nearest of those, and the sum of squares of
 * what it differs from t by. */
void alike_mean(int t, int stride, int most, double *mean);
double alike_missed(int t, int stride, int most);

/* Fails unless a and b are equal but for rounding in binary64; what: for the
 * message. */
void alike_near(double a, double b, const char *what);

#endif
