/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay methods`.
 */
#ifndef KV_SIM_OPTIONS_METHODS_H
#define KV_SIM_OPTIONS_METHODS_H

#include "sim/cli/option.h"

typedef struct kv_methods_options {
  kv_list names;
  int format; /* KV_ROWS_TABLE or KV_ROWS_JSON */
} kv_methods_options;

extern const kv_command kv_command_methods;

#endif
