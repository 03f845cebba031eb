/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of a trace before it exists, for `kvtrace plan`: the bytes of every
 * tensor that a recorder, or `kvtrace slim`, writes for a geometry and a
 * request. A file also has a header, some kilobytes for each shard.
 *
 *   kv_plan_of_model, kv_plan_of_trace or kv_plan_of_config; change tokens and
 *   type; kv_plan_cost, full and slim; kv_plan_free
 */
#ifndef KV_TRACES_PLAN_H
#define KV_TRACES_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "traces/trace/geometry.h"
#include "traces/trace/keep.h"
#include "traces/trace/trace.h"

/* What a layer records. */
typedef struct kv_plan_layer {
  int layer;               /* its number in the model */
  kv_dtype q_type, o_type; /* types of q and o */
  bool outputs;            /* o is recorded */
  bool sums;               /* in a trace: column sums are recorded */
  int rows;                /* query rows of a trace; 0: all tokens have one */
  int *row;                /* [rows] their tokens, ascending; NULL: all */
} kv_plan_layer;

typedef struct kv_plan {
  kv_shape shape;       /* of the model and the request; n_tokens 0: unknown */
  bool typed;           /* types are known: shape.dtype and those of layers */
  int n;                /* layers that can be recorded */
  kv_plan_layer *layer; /* [n] in the order of the model */
  int frequencies;      /* tensors of RoPE's frequencies: 0, 1 or 2 */
  bool sinks;           /* a logit a head and layer, F32 */
  bool k_bias;          /* d numbers a KV head and layer, F32 */
  bool tokens;          /* token ids are recorded */
  bool positions;       /* positions are recorded */
} kv_plan;

/* Bytes of all tensors of a kind, over the layers kept. */
typedef struct kv_cost {
  int layers, rows;   /* layers; query rows of the layer that has most */
  int64_t k, v, q, o; /* o 0: left out */
  int64_t sums;       /* column sums, if prompt rows are missing */
  int64_t rest;       /* numbers of rows, sinks, frequencies, tokens, .. */
  int64_t all;        /* the sum of these six */
} kv_cost;

/* The plan of a model of the table; tokens are unknown. KV_RESOURCE: memory. */
kv_rc kv_plan_of_model(const kv_geometry *g, kv_plan *out, kv_err *e);

/* The plan of t as it is, with what each layer has. KV_RESOURCE: memory. */
kv_rc kv_plan_of_trace(const kv_trace *t, kv_plan *out, kv_err *e);

/* Changes it to a request recorded anew: all query rows, no sums. */
void kv_plan_anew(kv_plan *p);

/* Sets the type of q, k, v and o of all layers. */
void kv_plan_type(kv_plan *p, kv_dtype type);

/* traces/trace/config.c: the plan of the model that a config.json describes, as
 * transformers reads it; tokens are unknown. KV_INPUT, naming the key: it is no
 * JSON or lacks a number. KV_RESOURCE: memory. */
kv_rc kv_plan_of_config(const char *path, kv_plan *out, kv_err *e);

/* The cost of the part that `keep` keeps; a zeroed keep with last = KV_KEEP_ALL
 * keeps everything. KV_USAGE: a layer cannot be recorded, no query row is left,
 * or the size is beyond 2^62 bytes. */
kv_rc kv_plan_cost(const kv_plan *p, const kv_keep *keep, kv_cost *out,
                   kv_err *e);

/* Frees the lists; *p may be zeroed. */
void kv_plan_free(kv_plan *p);

#endif
