/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to traces/trace/pack*.c: an open folder of chunks
 * (traces/trace/pack.h).
 */
#ifndef KV_TRACES_PACK_OWN_H
#define KV_TRACES_PACK_OWN_H

#include <stdbool.h>

#include "traces/container/chunks.h"
#include "traces/trace/own.h"
#include "traces/trace/pack.h"
#include "traces/trace/pack_json.h"

/* A tensor of the result. */
typedef struct kv_pack_tensor {
  char name[KV_TENSOR_NAME];
  kv_st_dtype dtype;
  int rank;
  uint64_t shape[3];
  uint64_t bytes;
  const void *data; /* of a small tensor; NULL: rows, which are in the files */
} kv_pack_tensor;

struct kv_pack {
  kv_pack_facts facts;
  char *folder;
  kv_pack_json json; /* trace.json */
  kv_chunks *file;   /* [facts.files] by layer, then first head */
  int *first;        /* [facts.layers + 1] the layer's first file */
  int n_layers, n_heads, n_kv_heads; /* of the model */
  int32_t *tokens, *positions;       /* [facts.tokens], or NULL */
  float *inv_freq;                   /* of rope.inv_freq, or NULL */
  float *windowed;                   /* of rope.inv_freq.windowed, or NULL */
  float *sinks;                      /* [facts.layers][n_heads], or NULL */
  kv_pack_tensor *tensor; /* [n] in the order of the result: small ones, then q,
                             k, v, o, sinks of each layer */
  int n;
  json_t *meta; /* metadata of the result: texts */
};

/* pack_tensors.c: fills in sinks, tensor and meta once files, layers and tokens
 * are known. KV_INPUT: a list of trace.json is wrong. KV_RESOURCE: memory. */
kv_rc kv_pack_lay_out(kv_pack *p, kv_err *e);

/* pack_draft.c: checks that the tensors and metadata of p make a trace, by
 * kv_trace_open of a file in memory without rows. KV_INPUT, naming trace.json
 * and the fault; KV_RESOURCE: memory. */
kv_rc kv_pack_try(const kv_pack *p, kv_err *e);

#endif
