/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of kvreport, and what their options fill in. Each says itself
 * what is wrong (analysis/database/say.h) and returns an exit code.
 */
#ifndef KV_ANALYSIS_COMMANDS_H
#define KV_ANALYSIS_COMMANDS_H

#include "traces/option/program.h"

typedef struct kv_args {
  kv_list files;
  int format; /* kv_grid_format; of export 0 or 1: csv or jsonl */
  bool mean, history;
  const char *where;  /* name=value,... or NULL */
  const char *output; /* or NULL */
} kv_args;

extern const kv_program kv_kvreport;

int kv_report_table(const kv_args *a);
int kv_report_cells(const kv_args *a); /* export to stdout */
int kv_report_html(const kv_args *a);
int kv_report_export(const kv_args *a);
int kv_report_history(const kv_args *a);
int kv_report_merge(const kv_args *a);

#endif
