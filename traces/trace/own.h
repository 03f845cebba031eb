/* SPDX-License-Identifier: Apache-2.0
 *
 * What an open trace owns behind the public fields of kv_trace, for files of
 * traces/ that need the file itself; all of it is freed by kv_trace_close. A
 * kv_trace whose `own` is NULL is a session's: it has no file.
 */
#ifndef KV_TRACES_OWN_H
#define KV_TRACES_OWN_H

#include <stdint.h>

#include "traces/container/safetensors.h"

/* Bytes of a tensor's name, "layers.2147483647.colsum" and a NUL among them. */
enum { KV_TENSOR_NAME = 40 };

/* Aligned copies of what is small; kv_trace points to them. */
struct kv_trace_own {
  kv_st *files;
  char *path, *name; /* as in kv_trace */
  int32_t **rows;    /* [n_layers] tokens of the recorded query rows, ascending;
                        NULL where all are recorded */
  int32_t *tokens;   /* [T], or NULL */
  int32_t *positions; /* [T], or NULL */
  float *inv_freq;    /* [d / 2], or NULL */
};

#endif
