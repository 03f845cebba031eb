/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay verify`: which database, and where its traces are looked
 * for. The option table of options_verify.c fills the struct, which is zeroed
 * before parsing, and checks ranges; command_verify.c reads it. Only its
 * kv_lists are freed, by kv_options_free.
 */
#ifndef KV_SIM_OPTIONS_VERIFY_H
#define KV_SIM_OPTIONS_VERIFY_H

#include "sim/compare/verdict.h"
#include "traces/option/option.h"

typedef struct kv_verify_options {
  kv_list db;     /* one path */
  kv_list traces; /* -t: folders to look for traces in, after the paths at which
                     the database saw them; may be empty */
  int jobs;       /* threads, 1 to 4096; 0: one a processor */
  int format;     /* a kv_verdict_format */
  bool quiet;     /* no progress bar */
} kv_verify_options;

#endif
