/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay lawcheck`.
 */
#ifndef KV_SIM_OPTIONS_LAWCHECK_H
#define KV_SIM_OPTIONS_LAWCHECK_H

#include "traces/option/option.h"

typedef struct kv_lawcheck_options {
  kv_list method; /* one */
  kv_list traces, laws;
  int budget, prompt_len, seconds;
  bool quiet;
  int format; /* kv_law_format */
} kv_lawcheck_options;

#endif
