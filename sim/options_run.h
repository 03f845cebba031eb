/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay run` is asked to do. The command line is parsed and checked
 * against itself here, before any trace is opened; the table is const.
 */
#ifndef KV_SIM_OPTIONS_RUN_H
#define KV_SIM_OPTIONS_RUN_H

#include "sim/budget.h"
#include "sim/option.h"
#include "sim/rows.h"
#include "sim/spec.h"

typedef enum kv_walk { KV_WALK_LAYERS, KV_WALK_STEPS } kv_walk;

typedef struct kv_run_options {
  kv_asked asked;
  kv_list traces;      /* paths */
  kv_list method_text; /* as typed; specs is what they mean */
  kv_list budget_text;
  kv_specs specs;
  kv_budgets budgets;
  const char *db;   /* NULL: no database */
  int jobs;         /* 0: one thread a processor */
  int prompt_len;   /* 0: the trace's own */
  int format, walk; /* kv_row_format, kv_walk */
  int backend;      /* 0: ref */
  bool twice, dry_run, quiet;
  const char *selections, *views, *stored, *outputs,
      *decisions; /* paths or NULL */
} kv_run_options;

extern const kv_command kv_command_run;

/* argv[0] is "run". Freed with kv_run_options_free, also after a failure. */
kv_rc kv_run_options_parse(kv_registry *registry, int argc, char **argv,
                           kv_run_options *out, kv_err *e);
void kv_run_options_free(kv_run_options *o);

#endif
