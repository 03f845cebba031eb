/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay grade`: which cell, whose files, and how strictly.
 */
#ifndef KV_SIM_OPTIONS_GRADE_H
#define KV_SIM_OPTIONS_GRADE_H

#include "sim/commands/options_cells.h"
#include "sim/grade/grade_report.h"

/* Zeroed before parsing. */
typedef struct kv_grade_options {
  kv_cells_options cells; /* first: sim/commands/options_cells.h; one cell */
  const char *theirs;     /* path of their decisions; required */
  const char *outputs;    /* path of their outputs; NULL: not graded */
  const char *tie_text, *atol_text, *rtol_text; /* as typed, or NULL */
  double tie;        /* share of the cut within which scores are a tie: 1e-3 */
  double atol, rtol; /* of outputs, absolute and relative; < 0: the default of
                        kv_grade for the type of theirs */
  int follow;        /* whose decision the reference goes on with: 0 theirs,
                        1 ours */
  int lse_base;      /* of their log-sum-exp: 0 e, 1 base 2 */
  bool all;          /* every wrong decision is listed, not the first alone */
  int format;        /* kv_grade_format */
} kv_grade_options;

/* Fills o->cells, tie, atol and rtol from what was typed, after
 * kv_options_parse. KV_USAGE: a number is wrong, or not exactly one trace,
 * method and budget are named. Free with kv_cells_options_free, also after a
 * failure. */
kv_rc kv_grade_options_check(kv_registry *registry, kv_grade_options *o,
                             kv_err *e);

#endif
