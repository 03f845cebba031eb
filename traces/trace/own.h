/* SPDX-License-Identifier: Apache-2.0
 *
 * What an open trace owns in addition to the public fields of kv_trace, for
 * code of traces/ that needs the file itself. kv_trace_close frees it. A
 * kv_trace whose `own` is NULL has no file: it is a session's.
 */
#ifndef KV_TRACES_OWN_H
#define KV_TRACES_OWN_H

#include <stdint.h>

#include "traces/container/safetensors.h"
#include "traces/trace/trace.h"

/* Bytes of a tensor's name, enough for "layers.2147483647.colsum" and a NUL. */
enum { KV_TENSOR_NAME = 40 };

/* Aligned copies of small tensors; kv_trace points to them. */
struct kv_trace_own {
  kv_st *files;
  char *path, *name; /* as in kv_trace */
  int32_t **rows;    /* [n_layers] tokens of the recorded query rows, ascending;
                        NULL: all are recorded */
  int32_t *tokens;   /* [T], or NULL */
  int32_t *positions;       /* [T], or NULL */
  float *inv_freq;          /* [d / 2], or NULL */
  float *windowed_inv_freq; /* the same */
  uint8_t *windowed;        /* [the model's layers], or NULL */
  float **sinks;  /* [n_layers] of [n_heads]; NULL if a layer has none */
  float **k_bias; /* [n_layers] of [n_kv_heads][d]; the same */
};

/* Functions that read the trace's files. Defined in traces/decisions/asset.c,
 * where methods' files are read. */
extern const kv_trace_reads kv_trace_file_reads;

/* KV_INPUT: "FILE: tensor NAME REASON". */
kv_rc kv_trace_tell(const kv_trace *t, const char *tensor, const char *reason,
                    kv_err *e);
/* *out: an aligned copy of a tensor of that type, I32 or F32, and of shape [n],
 * for free(). KV_INPUT: it is of another type or shape; KV_RESOURCE: memory. */
kv_rc kv_trace_copy(const kv_trace *t, const kv_st_tensor *x, kv_st_dtype type,
                    uint64_t n, void **out, kv_err *e);

/* identity.c: the request that a copy without token ids says it holds, in 64
 * digits; *out is unchanged if it does not. KV_INPUT: it is something else. */
#define KV_REQUEST_KEY "request_digest"
kv_rc kv_trace_stated(const kv_trace *t, kv_digest *out, kv_err *e);

/* frequencies.c: reads rope.inv_freq, with it the metadata rope.layout, and, of
 * version 2, rope.inv_freq.windowed into t, if they exist. Call when positions
 * have been read. KV_INPUT, naming what is wrong; KV_RESOURCE: memory. */
kv_rc kv_trace_read_rope(kv_trace *t, kv_err *e);

#endif
