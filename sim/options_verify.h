/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay verify` is asked to do.
 */
#ifndef KV_SIM_OPTIONS_VERIFY_H
#define KV_SIM_OPTIONS_VERIFY_H

#include "sim/option.h"

typedef struct kv_verify_options {
  kv_list db;     /* one path */
  kv_list traces; /* folders to look for traces in */
  int jobs;       /* 0: one thread a processor */
  bool quiet;
} kv_verify_options;

extern const kv_command kv_command_verify;

#endif
