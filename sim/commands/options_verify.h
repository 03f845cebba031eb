/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay verify`: which database, and where its traces are looked
 * for. The option table in options_verify.c fills the struct, which is zeroed
 * before; command_verify.c reads it, and nothing but its kv_lists is freed
 * (kv_options_free).
 */
#ifndef KV_SIM_OPTIONS_VERIFY_H
#define KV_SIM_OPTIONS_VERIFY_H

#include "sim/compare/verdict.h"
#include "traces/option/option.h"

typedef struct kv_verify_options {
  kv_list db;     /* one path */
  kv_list traces; /* folders to look for traces in, beside where they were */
  int jobs;       /* 0: one thread a processor */
  int format;     /* kv_verdict_format */
  bool quiet;     /* no progress */
} kv_verify_options;

#endif
