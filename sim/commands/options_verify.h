/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay verify`.
 */
#ifndef KV_SIM_OPTIONS_VERIFY_H
#define KV_SIM_OPTIONS_VERIFY_H

#include "sim/compare/verdict.h"
#include "traces/option/option.h"

typedef struct kv_verify_options {
  kv_list db;     /* one path */
  kv_list traces; /* folders to look for traces in */
  int jobs;       /* 0: one thread a processor */
  int format;     /* kv_verdict_format */
  bool quiet;
} kv_verify_options;

#endif
