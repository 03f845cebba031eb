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
  kv_asked asked;
  const char *theirs, *outputs; /* the last may be NULL */
  const char *tie_text, *atol_text, *rtol_text;
  double tie, atol, rtol; /* the last two < 0: as usual for the type */
  int follow;             /* 0: theirs, 1: ours */
  int lse_base;           /* 0: e, 1: 2 */
  bool all;
  int format; /* kv_grade_format */
} kv_grade_options;

extern const kv_command kv_command_grade;

/* Parses the command line; argv[0] is "grade". Free with kv_grade_options_free,
 * also after a failure. */
kv_rc kv_grade_options_parse(kv_registry *registry, int argc, char **argv,
                             kv_grade_options *out, kv_err *e);
void kv_grade_options_free(kv_grade_options *o);

#endif
