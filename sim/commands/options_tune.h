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

typedef struct kv_tune_options {
  kv_cells_options cells; /* first: sim/commands/options_cells.h; its
                             specifications are ends of the ranges */
  kv_list hold_out;       /* paths of traces that are not tuned on */
  kv_list search_text, at_most, at_least; /* as typed */
  const char *least, *most;
  int probes, format; /* probes 0: KV_TUNE_PROBES; kv_row_format */
  const char *backend_text;
  const kv_backend *backend;
  int methods;
  kv_tune_space *space; /* [methods] */
  char **corner;        /* [methods] texts of those specifications */
  kv_tune_goal goal;
} kv_tune_options;

enum { KV_TUNE_PROBES = 100 };

/* What was typed, in the terms of the engine. KV_RESOURCE: the backend cannot
 * be used here. Free with kv_tune_options_free, also after a failure. */
kv_rc kv_tune_options_check(kv_registry *registry, kv_tune_options *o,
                            kv_err *e);
void kv_tune_options_free(kv_tune_options *o);

#endif
