/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay check`. Backends are looked up here, so that one that
 * cannot be used is reported before any trace is opened.
 */
#ifndef KV_SIM_OPTIONS_CHECK_H
#define KV_SIM_OPTIONS_CHECK_H

#include "sim/commands/options_cells.h"
#include "sim/compare/verdict.h"

enum { KV_MOST_BACKENDS = 8 };

/* Zeroed before parsing. */
typedef struct kv_check_options {
  kv_cells_options cells;   /* first: sim/commands/options_cells.h */
  const char *backend_text; /* names with commas; NULL: all that can be had */
  const kv_backend *backend[KV_MOST_BACKENDS]; /* all compared with [0] */
  int backends;                                /* >= 2 */
  int format;                                  /* kv_verdict_format */
  bool paged;  /* coded rows lie in unified pages: kv_plan.paged */
  int indices; /* of regular indices, which rows lie by: kv_plan.indices */
} kv_check_options;

/* Fills o->cells and o->backend from what was typed, after kv_options_parse.
 * KV_USAGE: it contradicts itself, or names fewer than two backends;
 * KV_RESOURCE: one cannot be used here. Free with kv_cells_options_free, also
 * after a failure. */
kv_rc kv_check_options_check(kv_registry *registry, kv_check_options *o,
                             kv_err *e);

#endif
