/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay tune`. The option table of options_tune.c fills what was
 * typed; kv_tune_options_check, called by the command before any trace is
 * opened, makes the rest of it: the ranges to search of each method, and what
 * is asked of its points.
 */
#ifndef KV_SIM_OPTIONS_TUNE_H
#define KV_SIM_OPTIONS_TUNE_H

#include "sim/commands/options_cells.h"
#include "sim/show/rows.h"
#include "sim/tune/goal.h"
#include "sim/tune/space.h"

/* Zeroed before parsing. */
typedef struct kv_tune_options {
  kv_cells_options cells;    /* first: sim/commands/options_cells.h; made: its
                                specs are `corner` */
  kv_list hold_out;          /* paths of traces that are not tuned on */
  kv_list search_text;       /* ranges as typed: "window=8:64:8" */
  kv_list at_most, at_least; /* bounds as typed: "output_error=0.3" */
  const char *least, *most;  /* the measure to make small, or large; exactly one
                                of them was typed */
  int probes; /* most points of each method, 1 to KV_TUNE_MOST; made: not typed,
                 KV_TUNE_PROBES */
  int format; /* a kv_row_format */
  const char *backend_text;  /* as typed; NULL: ref */
  const kv_backend *backend; /* made: what it names */
  int methods;               /* made: how many -m names */
  kv_tune_space *space; /* [methods] made: what is searched through of each */
  char **corner;     /* [methods] made: specifications of the points that have
                        every range at its first value */
  kv_tune_goal goal; /* made: the measure and its bounds */
} kv_tune_options;

enum { KV_TUNE_PROBES = 100 }; /* points, unless --probes says how many */

/* Fills what is `made` from what was typed, after kv_options_parse; methods are
 * looked up in `registry`, then among plugins. KV_USAGE: options contradict
 * each other, a range or a measure is wrong, nothing is searched, a trace is
 * named twice, or a file to write is one that a method comes from; KV_INPUT: a
 * plugin, or a file of budgets, is bad; KV_RESOURCE: memory, or the backend
 * cannot be used here. Free with kv_tune_options_free, also after a failure. */
kv_rc kv_tune_options_check(kv_registry *registry, kv_tune_options *o,
                            kv_err *e);
void kv_tune_options_free(kv_tune_options *o); /* accepts zeroed */

#endif
