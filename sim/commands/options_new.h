/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay new`.
 */
#ifndef KV_SIM_OPTIONS_NEW_H
#define KV_SIM_OPTIONS_NEW_H

#include "sim/cli/option.h"

typedef struct kv_new_options {
  kv_list names; /* one */
  const char *folder;
} kv_new_options;

extern const kv_command kv_command_new;

#endif
