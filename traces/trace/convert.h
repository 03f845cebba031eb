/* SPDX-License-Identifier: Apache-2.0
 *
 * Rewrites a trace with q, k and v in another type, for `kvtrace convert`. Each
 * number becomes the nearest of that type, ties to even. Everything else is
 * copied, except, if any number changed:
 *
 *   o        is left out, because it is the output of the old numbers
 *   colsum   is recomputed from the rounded q and k, or left out if a layer
 *            does not record every prompt row
 *
 * Metadata gains `converted`, "F32 to BF16", if the type changes. Written as a
 * stream. Memory is half a megabyte and, if column sums are recomputed, the
 * prompt's q, k and sums of one KV head and what kv_colsum takes.
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
  /* Set by the caller: */
  const kv_trace *from;
  kv_dtype dtype;                    /* of q, k and v in the result */
  const volatile sig_atomic_t *stop; /* not 0: give up; may be NULL */
  /* Called with the bytes read since the last call; may be NULL. */
  void (*tick)(void *self, int64_t bytes);
  void *self; /* first argument of tick */
  /* Set by kv_convert_write: */
  int64_t changed;   /* numbers that rounding changed */
  int o_left_out;    /* layers whose outputs were left out */
  int sums_again;    /* layers whose column sums were recomputed */
  int sums_left_out; /* layers whose column sums were left out */
} kv_convert;

/* All bytes that tick will report: q, k and v, twice if they are rounded. */
int64_t kv_convert_bytes(const kv_convert *c);

/* Writes the result to path, NAME.safetensors. KV_USAGE: path is one of the
 * trace's own files, or must not be written (traces/container/newfile.h).
 * KV_INPUT: as kv_trace_scan_layer, or a number beyond the new type's range.
 * KV_RESOURCE: memory or disk, or *stop was set. After a failure nothing is
 * left behind. */
kv_rc kv_convert_write(kv_convert *c, const kv_kernels *kernel,
                       const char *path, kv_err *e);

#endif
