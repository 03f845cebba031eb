/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay lawcheck` is asked to do.
 */
#ifndef KV_SIM_OPTIONS_LAWCHECK_H
#define KV_SIM_OPTIONS_LAWCHECK_H

#include "sim/option.h"

typedef struct kv_lawcheck_options {
  kv_list method; /* one */
  kv_list traces, laws;
  int budget, prompt_len;
  bool quiet;
} kv_lawcheck_options;

extern const kv_command kv_command_lawcheck;

#endif
