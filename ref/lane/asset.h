/* SPDX-License-Identifier: Apache-2.0
 *
 * An asset: what a method reads from a file of its own - weights, a pattern of
 * heads, scores or decisions that somebody else made - as plain tensors in
 * memory. A method has a parameter of kind KV_FILE (ref/lane/param.h) for each
 * file, whose table says which tensors it reads. The engine opens the files
 * before `open` is called (traces/decisions/asset.h): every tensor asked for,
 * but optional ones, is then there, of the right type and shape, and finite. A
 * hook finds those of its layer in `at->asset`, in the order of the table, of
 * several files one after another, on every backend; a device has a copy of
 * them.
 *
 * Nobody writes to an asset. It outlives every hook.
 */
#ifndef KV_REF_ASSET_H
#define KV_REF_ASSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/ground/sha256.h"

/* The C type of a tensor's elements in memory. Floats may be F32, F16 or BF16
 * in the file: both short types are widened, which is exact. */
typedef enum kv_tensor_type {
  KV_T_F32, /* float */
  KV_T_I32, /* int32_t */
  KV_T_I64  /* int64_t */
} kv_tensor_type;

/* A dimension that is asked for (kv_tensor_ask.dim) is a number above 0, or one
 * of these: any length, or a number of the model. */
enum {
  KV_DIM_ANY = 0,
  KV_DIM_LAYERS = -1,   /* of the model, recorded or not */
  KV_DIM_HEADS = -2,    /* query heads of a layer */
  KV_DIM_KV_HEADS = -3, /* KV heads of a layer */
  KV_DIM_D = -4,        /* elements of a row of K */
  KV_DIM_D_V = -5,      /* of a row of V */
  KV_TENSOR_RANK = 4    /* most dimensions of a tensor */
};

/* A tensor that a method reads. In a name `*` stands for the number of a
 * layer, and there is one for each layer that the trace records: at most one
 * `*`. Without it there is one for all layers. */
typedef struct kv_tensor_ask {
  const char *name; /* "layers.*.keep"; NULL ends a table */
  kv_tensor_type type;
  int rank;                /* dimensions, 0 .. KV_TENSOR_RANK */
  int dim[KV_TENSOR_RANK]; /* [rank] a length, or KV_DIM_x */
  bool optional;           /* a file need not have it */
  bool unwindowed;         /* .. nor of a layer with a sliding window; where
                              the method runs on it (windowed=compress) the
                              engine refuses a file that lacks it */
} kv_tensor_ask;

/* What files of a kind hold. */
typedef struct kv_asset_kind {
  const char *format;           /* their metadata `format`; NULL: any or none */
  const kv_tensor_ask *tensors; /* ends with name NULL */
} kv_asset_kind;

/* A tensor as a hook finds it. */
typedef struct kv_tensor {
  const void *data; /* [count] of the type asked for, row-major, 64-byte
                       aligned; NULL: optional, and not in the file */
  int64_t count;    /* elements */
  int64_t dim[KV_TENSOR_RANK]; /* [rank] lengths */
} kv_tensor;

/* One pair of the file's metadata. */
typedef struct kv_asset_text {
  const char *key, *value;
} kv_asset_text;

/* What was read of one file. It owns all that it points to, but the table. */
typedef struct kv_asset {
  const char *path;         /* for messages: shortened, unprintable bytes
                               escaped; not for opening the file again */
  const kv_tensor_ask *ask; /* [asked] the method's table */
  int asked;
  int layers;
  const int *layer;        /* [layers] the model's numbers of the layers that
                              the trace records, ascending */
  const kv_tensor *tensor; /* [layers][asked]; one without `*` stands, the same,
                              in every layer's list */
  int texts;
  const kv_asset_text *text; /* [texts] the metadata */
  bool of_trace;             /* the metadata name a trace, and it is this one */
  size_t bytes;              /* of all tensors in memory, each once */
  kv_digest digest;          /* SHA-256 of the file */
} kv_asset;

/* Bytes of an element in memory: 4 or 8. */
size_t kv_tensor_size(kv_tensor_type type);
/* True if the file has one such tensor for every layer: its name has a `*`. */
bool kv_tensor_layered(const kv_tensor_ask *ask);
/* How many tensors a table asks for, its end not counted; 0 of NULL. */
int kv_tensors_asked(const kv_tensor_ask *ask);

/* The tensors of a layer of the model, [asked] in the table's order. NULL where
 * a is NULL or the trace does not record the layer. */
const kv_tensor *kv_asset_layer(const kv_asset *a, int layer);
/* The value of a key of the metadata, owned by the asset; NULL: no such key. */
const char *kv_asset_meta(const kv_asset *a, const char *key);

#endif
