/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay grade`.
 */
#ifndef KV_SIM_OPTIONS_GRADE_H
#define KV_SIM_OPTIONS_GRADE_H

#include "sim/commands/options_cells.h"
#include "sim/grade/grade_report.h"

typedef struct kv_grade_options {
  kv_cells_options cells; /* first: sim/commands/options_cells.h; one cell */
  const char *theirs, *outputs; /* the last may be NULL */
  const char *tie_text, *atol_text, *rtol_text;
  double tie, atol, rtol; /* the last two < 0: as usual for the type */
  int follow;             /* 0: theirs, 1: ours */
  int lse_base;           /* 0: e, 1: 2 */
  bool all;
  int format; /* kv_grade_format */
} kv_grade_options;

/* What was typed, once it is parsed, in the terms of the engine. Free with
 * kv_cells_options_free, also after a failure. */
kv_rc kv_grade_options_check(kv_registry *registry, kv_grade_options *o,
                             kv_err *e);

#endif
