/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trace owns behind its public fields; for the files of this room.
 */
#ifndef KV_TRACES_OWN_H
#define KV_TRACES_OWN_H

#include <stdint.h>

#include "traces/container/safetensors.h"

enum { KV_TENSOR_NAME = 40 }; /* "layers.2147483647.colsum" and a NUL */

struct kv_trace_own {
  kv_st *files;
  char *path, *name;
  int32_t **rows; /* [n_layers]; NULL where all rows are recorded */
  int32_t *tokens, *positions;
  float *inv_freq;
};

#endif
