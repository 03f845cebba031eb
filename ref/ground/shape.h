/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of one request: the numbers that all code needs about a trace,
 * independent of its file. Letters used throughout: l layer, h query head, g KV
 * head, t token id (index along T), p RoPE position, i entry index.
 */
#ifndef KV_REF_SHAPE_H
#define KV_REF_SHAPE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* The type of elements: IEEE half, bfloat16, float. */
typedef enum kv_dtype { KV_F16, KV_BF16, KV_F32 } kv_dtype;

static inline size_t kv_dtype_size(kv_dtype t) { return t == KV_F32 ? 4 : 2; }

/* The numbers of a request and its model. */
typedef struct kv_shape {
  int n_layers;            /* of the model, even if fewer are recorded */
  int n_heads, n_kv_heads; /* n_kv_heads divides n_heads */
  int d, d_v;              /* head dimension of q and k; of v */
  int n_tokens;            /* T: tokens recorded */
  int prompt_len;          /* P: 1..T; decode steps are P+1..T tokens seen */
  int chunk; /* tokens of a chunk, if the prompt is read in chunks; the last may
                have fewer (ref/ground/chunk.h). 0: it is read whole */
  kv_dtype dtype; /* of k and v in the trace */
  float scale;    /* logit = (q . k) * scale */
  float softcap;  /* c > 0: that logit becomes c tanh(logit / c)
                     (ref/ground/softcap.h); 0: no cap */
  int shared;     /* 1: V of a token is the first d_v numbers of its K, so a
                     store keeps it once; else 0 */
  /* [n_layers] 1: that layer of the model has a sliding window, else 0; NULL:
   * none has. Owned by the trace; only host code reads it. */
  const uint8_t *windowed;
} kv_shape;

/* Bytes of K and V of one token and KV head, as a store keeps them. */
static inline int64_t kv_token_bytes(const kv_shape *s) {
  return (int64_t)(s->d + (s->shared ? 0 : s->d_v)) *
         (int64_t)kv_dtype_size(s->dtype);
}

/* Query heads per KV head: query head h reads KV head h / group. */
static inline int kv_group(const kv_shape *s) {
  return s->n_heads / s->n_kv_heads;
}

/* Recorded data of one layer, row-major, unaligned, owned by the trace. q has
 * n_rows rows a head: those of tokens rows[0..n_rows), ascending, or, if rows
 * is NULL, of all tokens (kv_layer_row). */
typedef struct kv_layer_data {
  int layer;           /* the model's number */
  const void *q;       /* [n_heads][n_rows][d], q_dtype */
  const void *k;       /* [n_kv_heads][T][d], shape.dtype */
  const void *v;       /* [n_kv_heads][T][d_v], shape.dtype */
  kv_dtype q_dtype;    /* of q */
  int n_rows;          /* query rows a head */
  const int32_t *rows; /* [n_rows] token ids of the query rows, or NULL */
  const void *colsum;  /* [n_heads][colsum_len] int64, unaligned: per column the
                          sum over all prompt rows of RN(P * 2^40); NULL: not
                          recorded */
  int colsum_len;      /* columns: tokens of the prompt */
  int window; /* sliding window W >= 2: row t sees the last W tokens, its own
                 included; 0: it sees all up to its own */
  const float *sinks;  /* [n_heads] one more logit, finite, in each query head's
                          softmax; NULL: none */
  const float *k_bias; /* [n_kv_heads][d] what the model adds to each key before
                          RoPE, finite; NULL: nothing, or not recorded */
} kv_layer_data;

/* The first token that row t of the layer sees; the last is t. */
static inline int kv_layer_first(const kv_layer_data *data, int t) {
  return data->window && t >= data->window ? t - data->window + 1 : 0;
}

/* Index of token t's query row within a head's rows; asserts that the row is
 * recorded. O(log n_rows). */
static inline int kv_layer_row(const kv_layer_data *data, int t) {
  int low = 0, high = data->n_rows - 1;
  if (!data->rows) return t;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (data->rows[middle] < t)
      low = middle + 1;
    else
      high = middle;
  }
  assert(data->rows[low] == t && "a row that is not recorded was refused");
  return low;
}

/* The sinks from query head h on, or NULL. */
static inline const float *kv_layer_sink(const kv_layer_data *data, int h) {
  return data->sinks ? data->sinks + h : NULL;
}

/* Rotary positions of the request. inv_freq NULL: no RoPE recorded. */
typedef struct kv_rope {
  const int32_t *positions; /* [T], or NULL = 0..T-1 */
  const float *inv_freq;    /* [d/2], or NULL */
  int interleaved;          /* pairs 2i, 2i+1; else i, i + d/2 */
} kv_rope;

#endif
