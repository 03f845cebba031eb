/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay lawcheck`: which laws a method is asked, on what. The
 * option table in options_lawcheck.c fills the struct, which is zeroed before;
 * command_lawcheck.c reads it, and nothing but its kv_lists is freed
 * (kv_options_free).
 */
#ifndef KV_SIM_OPTIONS_LAWCHECK_H
#define KV_SIM_OPTIONS_LAWCHECK_H

#include "traces/option/option.h"

typedef struct kv_lawcheck_options {
  kv_list method; /* one specification, or a plugin's path */
  kv_list traces; /* paths or made:NAME; none: every synthetic trace */
  kv_list laws;   /* names; none: every law */
  int budget;     /* entries; 0: several, and every token */
  int prompt_len; /* tokens; 0: the trace's own */
  int seconds;    /* that one call of a hook may take; begin sets 20 */
  bool quiet;     /* of the table only what is broken, and the sum */
  int format;     /* kv_law_format */
} kv_lawcheck_options;

#endif
