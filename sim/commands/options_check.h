/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay check`. Backends are looked up here, so that one that
 * cannot be used is reported before any trace is opened.
 */
#ifndef KV_SIM_OPTIONS_CHECK_H
#define KV_SIM_OPTIONS_CHECK_H

#include "sim/commands/options_cells.h"
#include "sim/compare/verdict.h"

enum { KV_MOST_BACKENDS = 8 };

typedef struct kv_check_options {
  kv_cells_options cells; /* first: sim/commands/options_cells.h */
  kv_asked asked;
  const char *backend_text;
  const kv_backend *backend[KV_MOST_BACKENDS]; /* all compared with [0] */
  int backends;                                /* >= 2 */
  int format;                                  /* kv_verdict_format */
} kv_check_options;

extern const kv_command kv_command_check;

/* Parses the command line; argv[0] is "check". Free with kv_check_options_free,
 * also after a failure. KV_RESOURCE: a backend cannot be used here. */
kv_rc kv_check_options_parse(kv_registry *registry, int argc, char **argv,
                             kv_check_options *out, kv_err *e);
void kv_check_options_free(kv_check_options *o);

#endif
