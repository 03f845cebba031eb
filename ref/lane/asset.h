/* SPDX-License-Identifier: Apache-2.0
 *
 * An asset: the tensors that a method reads from a file of its own, such as
 * weights, a pattern of heads, or scores or decisions that another program
 * made. A method has one KV_FILE parameter (ref/lane/param.h) for each file;
 * its table says which tensors it reads. The engine opens the files before it
 * calls `open` (traces/decisions/asset.h). Every tensor in the table, except
 * optional ones, then exists, has the right type and shape, and is finite. A
 * hook finds the tensors of its layer in `at->asset`, in the order of the
 * table; those of a second file follow. A device has a copy of them.
 *
 * An asset is read-only and outlives every hook.
 */
#ifndef KV_REF_ASSET_H
#define KV_REF_ASSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/ground/sha256.h"

/* Element type in memory. A float tensor may be F32, F16 or BF16 in the file;
 * the short types are widened, which is exact. */
typedef enum kv_tensor_type {
  KV_T_F32, /* float */
  KV_T_I32, /* int32_t */
  KV_T_I64  /* int64_t */
} kv_tensor_type;

/* A required dimension (kv_tensor_ask.dim): a length above 0, or one of: */
enum {
  KV_DIM_ANY = 0,       /* any length */
  KV_DIM_LAYERS = -1,   /* of the model, recorded or not */
  KV_DIM_HEADS = -2,    /* query heads of a layer */
  KV_DIM_KV_HEADS = -3, /* KV heads of a layer */
  KV_DIM_D = -4,        /* elements of a row of K */
  KV_DIM_D_V = -5,      /* of a row of V */
  KV_TENSOR_RANK = 4    /* most dimensions of a tensor */
};

/* A tensor that a method reads. A name may contain one `*`, which stands for
 * the number of a layer: the file then has one tensor for each layer that the
 * trace records. Without it, one tensor serves all layers. */
typedef struct kv_tensor_ask {
  const char *name; /* "layers.*.keep"; NULL ends a table */
  kv_tensor_type type;
  int rank;                /* dimensions, 0 .. KV_TENSOR_RANK */
  int dim[KV_TENSOR_RANK]; /* [rank] a length, or KV_DIM_x */
  bool optional;           /* the file may lack it */
  bool unwindowed;         /* The file may lack it for layers with a sliding
                              window. If the method runs on such a layer
                              (windowed=compress), the engine refuses a file
                              that lacks it. */
} kv_tensor_ask;

/* What a file must contain. */
typedef struct kv_asset_kind {
  const char *format; /* the file's metadata `format`; NULL: any or none */
  const kv_tensor_ask *tensors; /* ends with name NULL. NULL: the file is plain
                                   text, not safetensors. Its lines are the
                                   asset's texts, each under its number from 1,
                                   without comments (# to the end of a line),
                                   outer blanks and empty lines */
} kv_asset_kind;

/* A tensor as a hook finds it. */
typedef struct kv_tensor {
  const void *data; /* [count] elements, row-major, 64-byte aligned; NULL:
                       optional, and not in the file */
  int64_t count;    /* elements */
  int64_t dim[KV_TENSOR_RANK]; /* [rank] lengths */
} kv_tensor;

/* One pair of the file's metadata. */
typedef struct kv_asset_text {
  const char *key, *value;
} kv_asset_text;

/* The contents of one file. Owns everything that it points to, except `ask`. */
typedef struct kv_asset {
  const char *path;         /* for messages: shortened and escaped, so not for
                               opening the file */
  const kv_tensor_ask *ask; /* [asked] the method's table */
  int asked;
  int layers;
  const int *layer;        /* [layers] numbers, in the model, of the layers that
                              the trace records, ascending */
  const kv_tensor *tensor; /* [layers][asked]; a tensor without `*` is repeated
                              in every layer */
  int texts;
  const kv_asset_text *text; /* [texts] the metadata */
  bool of_trace;             /* the metadata name a trace, and it is the trace
                                at hand */
  size_t bytes;              /* of all tensors in memory, each counted once */
  kv_digest digest;          /* SHA-256 of the file */
} kv_asset;

/* Bytes of an element in memory: 4 or 8. */
size_t kv_tensor_size(kv_tensor_type type);
/* Does the name contain `*`, so that the file has one for every layer? */
bool kv_tensor_layered(const kv_tensor_ask *ask);
/* Number of tensors in a table; 0 for NULL. */
int kv_tensors_asked(const kv_tensor_ask *ask);

/* The tensors of a layer of the model, [asked] in the table's order. NULL if a
 * is NULL or the trace does not record the layer. */
const kv_tensor *kv_asset_layer(const kv_asset *a, int layer);
/* The value of a metadata key, owned by the asset, or NULL. */
const char *kv_asset_meta(const kv_asset *a, const char *key);

#endif
