/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay check`, which compares backends. The option table of
 * options_check.c fills what was typed; kv_check_options_check, called by the
 * command before any trace is opened, makes the rest of it and looks up the
 * backends, so that one that cannot be used is said at once.
 */
#ifndef KV_SIM_OPTIONS_CHECK_H
#define KV_SIM_OPTIONS_CHECK_H

#include "sim/commands/options_cells.h"
#include "sim/compare/verdict.h"

enum { KV_MOST_BACKENDS = 8 }; /* that --backends may name */

/* Zeroed before parsing. */
typedef struct kv_check_options {
  kv_cells_options cells; /* first: sim/commands/options_cells.h */
  const char *
      backend_text; /* --backends, as typed; NULL: those that can be had here */
  const kv_backend *backend[KV_MOST_BACKENDS]; /* [backends] all are compared
                                                  with the first */
  int backends;                                /* 2 to KV_MOST_BACKENDS */
  int format;                                  /* a kv_verdict_format */
  bool paged;  /* --pages: on cuda and emu coded rows lie in unified pages,
                  where the formats allow it (kv_plan.paged) */
  int indices; /* --indices none, sparse, max, joined or shared: a kv_indices,
                  by which rows lie on cuda and emu */
} kv_check_options;

/* Fills o->cells and o->backend from what was typed, after kv_options_parse;
 * methods are looked up in `registry`, then among plugins. KV_USAGE: options
 * contradict each other, a method or a budget is wrong, a backend is unknown or
 * the only one named, or --db comes without ref as the first; KV_INPUT: a
 * plugin, or a file of budgets, is bad; KV_RESOURCE: memory, or a backend, or
 * none but ref where none is named, cannot be used here. Free o->cells with
 * kv_cells_options_free, also after a failure. */
kv_rc kv_check_options_check(kv_registry *registry, kv_check_options *o,
                             kv_err *e);

#endif
