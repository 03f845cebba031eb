/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace in memory: the queries, keys and values of one request to one model.
 * A replay sees nothing else. traces/trace/trace.h opens one from a file. A
 * program may also fill in the struct itself: zero it, then set at least path,
 * name, shape, rope_scale (1), n_layers and layer. Its maker owns everything
 * that it points to; a replay only reads.
 */
#ifndef KV_REF_TRACE_H
#define KV_REF_TRACE_H

#include <stdint.h>

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "ref/lane/asset.h"

/* An answer whose words occur earlier in the request (its needle), as ranges of
 * tokens with exclusive ends. Row start + i - 1 predicts token start + i, start
 * >= 1, and looks for token source_start + i. The two lengths may differ. */
typedef struct kv_answer {
  int start, end, source_start, source_end;
} kv_answer;

typedef enum kv_role { KV_CONTEXT, KV_QUESTION, KV_ANSWER } kv_role;

/* A part of the request. */
typedef struct kv_segment {
  int start, end; /* tokens, end exclusive */
  kv_role role;
} kv_segment;

/* A recorded layer. */
typedef struct kv_recorded {
  kv_layer_data data; /* q, k, v, column sums, window and sinks */
  const void *o;      /* [n_heads][data.n_rows][d_v] the model's own outputs, of
                         o_type; NULL: not recorded */
  kv_dtype o_type;
} kv_recorded;

typedef struct kv_trace {
  const char *path; /* of its file, or another name for messages */
  const char *name; /* the file's, without folder and .safetensors */
  kv_shape shape;   /* T = shape.n_tokens */
  kv_rope rope;
  /* [d/2] frequencies of layers with a sliding window, if they differ from
   * rope's; NULL: all layers have the same. */
  const float *windowed_inv_freq;
  float rope_scale;      /* factor of RoPE's cosines and sines, already in q and
                            k; 1 if none is recorded */
  int n_layers;          /* recorded layers, <= shape.n_layers */
  kv_recorded *layer;    /* [n_layers], ascending data.layer */
  const int32_t *tokens; /* [T] token ids, or NULL */
  int first_decode;      /* smallest prompt_len for which the query rows of all
                            decoded tokens are recorded; 0: any */
  int n_answers;
  kv_answer *answer; /* [n_answers] */
  int n_segments;
  kv_segment *segment;                /* [n_segments] */
  const struct kv_trace_reads *reads; /* functions that read files, or NULL */
  struct kv_trace_own *own;           /* the reader's data; NULL: no file */
} kv_trace;

/* Functions that read files for a trace. All may be NULL. A trace in memory
 * needs none, unless its methods read files. */
typedef struct kv_trace_reads {
  /* kv_trace_scan_layer, kv_trace_damaged and kv_trace_release_layer
   * (traces/trace/trace.h). */
  kv_rc (*scan_layer)(const kv_trace *t, int i, kv_err *e);
  kv_rc (*damaged)(const kv_trace *t, kv_err *e);
  void (*release_layer)(const kv_trace *t, int i);
  /* kv_asset_open and kv_asset_beside (traces/decisions/asset.h). */
  kv_rc (*asset_open)(const char *path, const kv_asset_kind *kind,
                      const kv_trace *t, int prompt_len, kv_asset **out,
                      kv_err *e);
  kv_rc (*asset_beside)(const kv_trace *t, const char *method, size_t room,
                        char *path, kv_err *e);
} kv_trace_reads;

#endif
