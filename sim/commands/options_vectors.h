/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of `kvreplay vectors`. Steps and layers remain text, because their
 * meaning depends on the trace.
 */
#ifndef KV_SIM_OPTIONS_VECTORS_H
#define KV_SIM_OPTIONS_VECTORS_H

#include "sim/commands/options_cells.h"

typedef struct kv_vectors_options {
  kv_cells_options cells; /* first: sim/commands/options_cells.h; one cell */
  kv_asked asked;
  const char *steps, *layers, *dir;
  int format; /* 0: safetensors, 1: raw */
} kv_vectors_options;

extern const kv_command kv_command_vectors;

/* Parses the command line; argv[0] is "vectors". Free with
 * kv_vectors_options_free, also after a failure. */
kv_rc kv_vectors_options_parse(kv_registry *registry, int argc, char **argv,
                               kv_vectors_options *out, kv_err *e);
void kv_vectors_options_free(kv_vectors_options *o);

#endif
