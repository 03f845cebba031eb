/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay verify`.
 */
#ifndef KV_SIM_OPTIONS_VERIFY_H
#define KV_SIM_OPTIONS_VERIFY_H

#include "sim/cli/option.h"
#include "sim/compare/verdict.h"

typedef struct kv_verify_options {
  kv_list db;     /* one path */
  kv_list traces; /* folders to look for traces in */
  int jobs;       /* 0: one thread a processor */
  int format;     /* kv_verdict_format */
  bool quiet;
} kv_verify_options;

extern const kv_command kv_command_verify;

#endif
