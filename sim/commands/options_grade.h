/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay grade`: which cell, whose decisions and outputs, and how
 * strictly they are judged. The option table of options_grade.c fills what was
 * typed; kv_grade_options_check, called by the command before any file is
 * opened, makes the rest of it.
 */
#ifndef KV_SIM_OPTIONS_GRADE_H
#define KV_SIM_OPTIONS_GRADE_H

#include "sim/commands/options_cells.h"
#include "sim/grade/grade_report.h"

/* Zeroed before parsing. */
typedef struct kv_grade_options {
  kv_cells_options cells; /* first: sim/commands/options_cells.h; one cell */
  const char *theirs;     /* path of their decisions; always given */
  const char *outputs;    /* path of their outputs; NULL: not graded */
  const char *tie_text, *atol_text, *rtol_text; /* as typed, or NULL */
  double tie;        /* >= 0, share of the cut (the least score chosen) within
                        which scores are a tie; 1e-3 if not typed */
  double atol, rtol; /* tolerances of outputs, absolute and relative; < 0: not
                        typed, so those of the type of theirs
                        (sim/grade/outputs.h) */
  int follow;        /* whose decision the reference goes on with: 0 theirs,
                        1 ours */
  int lse_base;      /* of their log-sum-exp: 0 natural, 1 to base 2 */
  bool all;   /* list every wrong decision and row, not the first alone */
  int format; /* a kv_grade_format */
} kv_grade_options;

/* Fills o->cells, tie, atol and rtol from what was typed, after
 * kv_options_parse; the method is looked up in `registry`, then among plugins.
 * KV_USAGE: a number is wrong or negative, or not exactly one method and at
 * most one budget are named; KV_INPUT: a plugin, or a file of budgets, is bad;
 * KV_RESOURCE: memory.
 * Free o->cells with kv_cells_options_free, also after a failure. */
kv_rc kv_grade_options_check(kv_registry *registry, kv_grade_options *o,
                             kv_err *e);

#endif
