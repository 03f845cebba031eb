/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay check` is asked to do. Backends are found here, so that one
 * that cannot be had is known before any trace is opened.
 */
#ifndef KV_SIM_OPTIONS_CHECK_H
#define KV_SIM_OPTIONS_CHECK_H

#include "sim/options_cells.h"
#include "sim/verdict.h"

enum { KV_MOST_BACKENDS = 8 };

typedef struct kv_check_options {
  kv_cells_options cells; /* first: sim/options_cells.h */
  kv_asked asked;
  const char *backend_text;
  const kv_backend *backend[KV_MOST_BACKENDS]; /* the others against [0] */
  int backends;                                /* >= 2 */
  int format;                                  /* kv_verdict_format */
} kv_check_options;

extern const kv_command kv_command_check;

/* argv[0] is "check". Freed with kv_check_options_free, also after a failure.
 * KV_RESOURCE: a backend cannot be had. */
kv_rc kv_check_options_parse(kv_registry *registry, int argc, char **argv,
                             kv_check_options *out, kv_err *e);
void kv_check_options_free(kv_check_options *o);

#endif
