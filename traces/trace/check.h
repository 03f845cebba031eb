/* SPDX-License-Identifier: Apache-2.0
 *
 * Does a trace hold what it claims? Per recorded layer: every number finite,
 * and o recomputed from q, k and v in the canonical arithmetic against the o
 * that was recorded. Figures do not depend on the number of threads.
 */
#ifndef KV_TRACES_CHECK_H
#define KV_TRACES_CHECK_H

#include <stdbool.h>

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

typedef struct kv_check {
  int layer;        /* the model's number */
  bool has_o;       /* the two errors below mean something */
  double error;     /* largest |recomputed - recorded| */
  double relative;  /* ||recomputed - recorded|| / ||recorded||, 0/0 = 0 */
  double tolerance; /* of relative: F32 1e-4, BF16 outputs 4e-3, else 2e-3 */
} kv_check;

/* The larger of two errors, and a NaN for good: whoever judges by it must see
 * that something was no number. */
static inline double kv_check_worse(double a, double b) {
  return a <= b || b != b ? b : a;
}

/* ||difference|| / ||norm|| of two sums of squares, 0/0 = 0. NaN of a NaN,
 * which no tolerance reaches. */
double kv_check_relative(double difference, double norm);

/* KV_INPUT for NaN, Inf or a damaged file. Above the tolerance is no error
 * here: the caller compares. */
kv_rc kv_check_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                     kv_check *out, kv_err *e);

/* Recorded column sums: where every prompt row is there, each against the one
 * that q and k give; else only that a head's columns share what its rows have,
 * 1 each. A sum differs that is further away than the tolerance of it, or of
 * one row's mass where that is more. In units of 2^-40. */
typedef struct kv_check_sums {
  bool recorded, recomputed;
  double tolerance;    /* 1e-4 of F32, 2e-3 of 2-byte types */
  int64_t different;   /* columns; heads where not recomputed */
  int head, column;    /* the first, column -1: all of the head */
  double theirs, ours; /* there */
} kv_check_sums;

kv_rc kv_check_sums_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                          kv_check_sums *out, kv_err *e);

/* The second opinion: another library's matrix products and a softmax in
 * binary64 against the canonical recomputation, on a sample of rows. */
typedef struct kv_second {
  const char *by; /* "BLIS 0.9.0", or NULL: not built in */
  long rows;      /* query rows compared */
  double error, relative;
} kv_second;

kv_rc kv_second_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                      kv_second *out, kv_err *e);

/* Tells the other library which processor this is, where it would not know;
 * before any thread, once. */
void kv_second_setup(void);

#endif
