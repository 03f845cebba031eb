/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether a trace holds what it claims, for `kvtrace check`, layer by
 * layer: every number is finite, and recorded outputs and column sums agree
 * with those recomputed from q, k and v. Results do not depend on the number of
 * threads. A difference beyond a tolerance is no error here: the caller
 * compares. i is always the i-th recorded layer, from 0. Each call costs full
 * attention of the rows that are compared.
 */
#ifndef KV_TRACES_CHECK_H
#define KV_TRACES_CHECK_H

#include <stdbool.h>

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

/* Recorded outputs o against recomputed ones, over all rows and heads. */
typedef struct kv_check {
  int layer;        /* the model's number */
  bool has_o;       /* outputs are recorded, and the two errors are valid */
  double error;     /* largest |recomputed - recorded| of an element */
  double relative;  /* ||recomputed - recorded|| / ||recorded||, 0/0 = 0 */
  double tolerance; /* for relative: 4e-3 with BF16 outputs, 1e-4 if all is F32,
                       else 2e-3 */
} kv_check;

/* The larger of two errors; NaN if either is, so that it is not overlooked. */
static inline double kv_check_worse(double a, double b) {
  return a <= b || b != b ? b : a;
}

/* ||difference|| / ||norm|| from the two sums of squares. 0/0 is 0; NaN gives
 * NaN, which is within no tolerance. */
double kv_check_relative(double difference, double norm);

/* Scans all numbers of the layer and compares its outputs. KV_INPUT: as
 * kv_trace_scan_layer and kv_trace_scan_output; KV_RESOURCE: memory. */
kv_rc kv_check_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                     kv_check *out, kv_err *e);

/* Recorded column sums (traces/trace/colsum.h), in units of 2^-40. If every
 * prompt row is recorded, each sum is compared with the recomputed one.
 * Otherwise only the sum of each query head's columns is compared with the
 * number of prompt rows, because a row's probabilities add up to 1; nothing is
 * compared if the layer has sinks, with which they do not. Two numbers differ
 * if they are further apart than tolerance * max(expected, one row's mass). */
typedef struct kv_check_sums {
  bool recorded;       /* there are column sums; else nothing is compared */
  bool recomputed;     /* every prompt row is recorded: column by column */
  double tolerance;    /* 1e-4 of F32, 2e-3 of other types */
  int64_t different;   /* columns that differ; heads if not recomputed */
  int head, column;    /* the first difference; column -1: the whole head */
  double theirs, ours; /* recorded and expected there */
} kv_check_sums;

/* Checks the layer's column sums, after kv_check_layer. KV_INPUT: a logit is
 * not finite, or the file has changed; KV_RESOURCE: memory. */
kv_rc kv_check_sums_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                          kv_check_sums *out, kv_err *e);

/* A second opinion on the recomputation: the same outputs by another library's
 * matrix products and a softmax in binary64, on evenly spread rows. */
typedef struct kv_second {
  const char *by;  /* "BLIS 0.9.0"; NULL: not built in, and all below is 0 */
  long rows;       /* query rows compared, at most some 2048 a query head */
  double error;    /* as in kv_check, between the two recomputations */
  double relative; /* the same */
} kv_second;

/* Compares the two; `by` is valid until the next call. Uses one thread; only
 * one thread at a time may call. KV_INPUT: the file has changed. KV_RESOURCE:
 * memory. */
kv_rc kv_second_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                      kv_second *out, kv_err *e);

/* For main, once and before any thread: sets BLIS_ARCH_TYPE on processors with
 * AVX2 or AVX-512, unless the user has set it. BLIS 0.9 otherwise chooses slow
 * kernels on processors newer than itself. Without BLIS it does nothing. */
void kv_second_setup(void);

#endif
