/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay tune`: parsed, and checked for consistency, before any
 * trace is opened.
 */
#ifndef KV_SIM_OPTIONS_TUNE_H
#define KV_SIM_OPTIONS_TUNE_H

#include "sim/commands/options_cells.h"
#include "sim/show/rows.h"
#include "sim/tune/goal.h"
#include "sim/tune/space.h"

/* Zeroed before parsing. */
typedef struct kv_tune_options {
  kv_cells_options cells;    /* first: sim/commands/options_cells.h; its
                                specifications are ends of the ranges */
  kv_list hold_out;          /* paths of traces that are not tuned on */
  kv_list search_text;       /* ranges as typed: "window=8:64:8" */
  kv_list at_most, at_least; /* bounds as typed: "output_error=0.3" */
  const char *least, *most;  /* the measure to make small, or large; one is
                                NULL */
  int probes; /* at most so many points of each method; 0: KV_TUNE_PROBES */
  int format; /* kv_row_format */
  const char *backend_text;  /* as typed; NULL: ref */
  const kv_backend *backend; /* what it names */
  int methods;
  kv_tune_space *space; /* [methods] what is searched through of each */
  char **corner;        /* [methods] texts of cells.specs, which are the points
                           with every range at its first value */
  kv_tune_goal goal;    /* the measure and its bounds */
} kv_tune_options;

enum { KV_TUNE_PROBES = 100 };

/* Fills what is not `as typed` from what is, after kv_options_parse, opens no
 * trace. KV_USAGE: options contradict each other, a range or a measure is
 * wrong, or nothing is searched; KV_RESOURCE: the backend cannot be used here.
 * Free with kv_tune_options_free, also after a failure. */
kv_rc kv_tune_options_check(kv_registry *registry, kv_tune_options *o,
                            kv_err *e);
void kv_tune_options_free(kv_tune_options *o);

#endif
