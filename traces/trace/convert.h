/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace whose q, k and v have another type: each number the nearest of it,
 * ties to even. All else is carried over, as it is, but for what the rounding
 * makes untrue: where a number changed,
 *
 *   o        the model's outputs are those of the numbers before, and are
 *            left out
 *   colsum   is recomputed from the rounded q and k; left out where a layer
 *            does not hold every prompt row
 *
 * Metadata gains `converted`, "F32 to BF16". Written as a stream: memory is a
 * megabyte, and the column sums of a layer.
 */
#ifndef KV_TRACES_CONVERT_H
#define KV_TRACES_CONVERT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

typedef struct kv_convert {
  const kv_trace *from;
  kv_dtype dtype;
  const volatile sig_atomic_t *stop; /* may be NULL; set: give up */
  /* or NULL: bytes read since the last call */
  void (*tick)(void *self, int64_t bytes);
  void *self; /* of tick */
  /* What became of it: */
  int64_t changed;                           /* numbers that are others */
  int o_left_out, sums_again, sums_left_out; /* layers */
} kv_convert;

/* Bytes that it reads, for a bar. */
int64_t kv_convert_bytes(const kv_convert *c);

/* KV_USAGE where path is the trace's own; KV_INPUT for NaN, Inf, and what is
 * beyond the type's range, by place; KV_RESOURCE when the disk is full or
 * *stop was set. Nothing is left behind then. */
kv_rc kv_convert_write(kv_convert *c, const kv_kernels *kernel,
                       const char *path, kv_err *e);

#endif
