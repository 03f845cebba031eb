/* SPDX-License-Identifier: Apache-2.0
 *
 * An asset: what a method reads from a file of its own - weights, a pattern of
 * heads, decisions that somebody else took - as plain tensors in memory. A
 * method has one parameter of kind KV_FILE (ref/lane/param.h), whose table
 * says which tensors it reads. The engine opens the file before `open` is
 * called (traces/decisions/asset.h): every tensor asked for is then there, of
 * the right type and shape, and finite. A hook finds those of its layer in
 * `at->asset`, in the order of the table, on every backend; a device has a copy
 * of them.
 *
 * Nobody writes to an asset. It outlives every hook.
 */
#ifndef KV_REF_ASSET_H
#define KV_REF_ASSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/ground/sha256.h"

/* How a method gets the numbers. Floats may be F32, F16 or BF16 in the file:
 * both short types widen to the same number. */
typedef enum kv_tensor_type { KV_T_F32, KV_T_I32, KV_T_I64 } kv_tensor_type;

/* A dimension that is asked for: a number above 0, any length, or a number of
 * the model. */
enum {
  KV_DIM_ANY = 0,
  KV_DIM_LAYERS = -1, /* of the model, recorded or not */
  KV_DIM_HEADS = -2,  /* query heads of a layer */
  KV_DIM_KV_HEADS = -3,
  KV_DIM_D = -4,
  KV_DIM_D_V = -5,
  KV_TENSOR_RANK = 4
};

/* A tensor that a method reads. In a name `*` stands for the number of a
 * layer, and there is one for each layer that the trace records: at most one
 * `*`. Without it there is one for all layers. */
typedef struct kv_tensor_ask {
  const char *name; /* "layers.*.keep"; NULL ends a table */
  kv_tensor_type type;
  int rank;
  int dim[KV_TENSOR_RANK];
  bool optional; /* a file need not have it */
} kv_tensor_ask;

/* What files of a kind hold. */
typedef struct kv_asset_kind {
  const char *format;           /* their metadata `format`; NULL: any or none */
  const kv_tensor_ask *tensors; /* ends with name NULL */
} kv_asset_kind;

/* Row-major, 64-byte aligned. data NULL: optional, and not in the file. */
typedef struct kv_tensor {
  const void *data;
  int64_t count; /* elements */
  int64_t dim[KV_TENSOR_RANK];
} kv_tensor;

/* One pair of the file's metadata. */
typedef struct kv_asset_text {
  const char *key, *value;
} kv_asset_text;

typedef struct kv_asset {
  const char *path;         /* as a sentence may show it: one short line */
  const kv_tensor_ask *ask; /* [asked] the method's table */
  int asked;
  int layers;
  const int *layer;        /* [layers] recorded ones, ascending */
  const kv_tensor *tensor; /* [layers][asked] */
  int texts;
  const kv_asset_text *text; /* [texts] */
  bool of_trace;             /* it is for one trace and prompt, this one */
  size_t bytes;              /* of all tensors, each once */
  kv_digest digest;          /* SHA-256 of the file */
} kv_asset;

size_t kv_tensor_size(kv_tensor_type type); /* bytes an element */
/* True if there is one for every layer. */
bool kv_tensor_layered(const kv_tensor_ask *ask);
/* How many a table has; NULL has none. */
int kv_tensors_asked(const kv_tensor_ask *ask);

/* The tensors of a layer, by the model's number: [asked]. NULL where a is NULL
 * or does not know the layer. */
const kv_tensor *kv_asset_layer(const kv_asset *a, int layer);
/* The metadata's value; NULL where there is none. */
const char *kv_asset_meta(const kv_asset *a, const char *key);

#endif
