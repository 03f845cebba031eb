/* SPDX-License-Identifier: Apache-2.0
 *
 * The synthetic trace of the engine sheet, and the files that methods read for
 * it, in a temporary folder that close removes. Only for sheet.c; open, file,
 * close, by one thread.
 */
#ifndef KV_SIM_SHEET_TRACE_H
#define KV_SIM_SHEET_TRACE_H

#include "ref/kernels/kernels.h"
#include "sim/ask/spec.h"
#include "traces/trace/trace.h"

typedef struct kv_sheet_trace {
  char folder[64]; /* "": there is none */
  char path[96];   /* of the trace */
  kv_trace *trace;
} kv_sheet_trace;

/* Makes folder and trace. KV_RESOURCE: memory or disk. Close it also then. */
kv_rc kv_sheet_trace_open(const kv_kernels *kernels, kv_sheet_trace *x,
                          kv_err *e);
void kv_sheet_trace_close(kv_sheet_trace *x); /* accepts zeroed */

/* Adds the file names that a specification requires but lacks, and fills each
 * file with seeded numbers. *made: there was one. KV_REFUSED: the contents of
 * such a file are unknown. KV_RESOURCE: memory or disk. */
kv_rc kv_sheet_trace_file(const kv_sheet_trace *x, kv_spec *spec, bool *made,
                          kv_err *e);

#endif
