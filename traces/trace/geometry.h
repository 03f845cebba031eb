/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of known models, for `kvtrace synth --like`, `kvtrace plan` and the
 * synthetic traces of tests. The numbers are from the config.json published
 * with the model; there are no weights.
 */
#ifndef KV_TRACES_GEOMETRY_H
#define KV_TRACES_GEOMETRY_H

#include "ref/ground/shape.h"

/* How RoPE's frequencies theta^(-2 i / d) are scaled for longer texts. */
typedef enum kv_rope_scaling {
  KV_ROPE_PLAIN,  /* not at all */
  KV_ROPE_LLAMA3, /* Llama 3.1: by 1 to 8, from 8,192 tokens on */
  KV_ROPE_LINEAR, /* Gemma 3: all by 8 */
  KV_ROPE_YARN    /* gpt-oss: by 1 to 32, from 4,096 tokens on */
} kv_rope_scaling;

typedef struct kv_geometry {
  const char *name;        /* "llama-3.1-8b" */
  int n_layers;            /* of the model */
  int n_heads;             /* query heads of a layer, a multiple of n_kv_heads
                            */
  int n_kv_heads;          /* KV heads of a layer */
  int d;                   /* dimension of q, k and v */
  float theta;             /* base of RoPE's frequencies */
  kv_rope_scaling scaling; /* of the frequencies */
  kv_dtype dtype;          /* of q, k, v and o */
  int window;              /* sliding window in tokens, at least 2; 0: none */
  int full_every;          /* every so many layers one has no window: with 6, as
                              in Gemma 3, layers 5, 11, ..; 0: all have it */
  float theta_windowed;    /* base in layers with a window, not scaled; 0: the
                              same frequencies as in the others */
  int sinks;               /* 1: a learned sink for every query head */
} kv_geometry;

/* The table of known models, static; *n becomes its length. */
const kv_geometry *kv_geometries(int *n);
/* The model of that name, or NULL. */
const kv_geometry *kv_geometry_find(const char *name);

/* Its sliding window in a layer of the model, in tokens; 0: none. */
int kv_geometry_window(const kv_geometry *g, int layer);

/* Writes RoPE's frequencies, in radians a token, into out[g->d / 2]: of layers
 * with a window (if windowed is 1 and g->theta_windowed is not 0) or of the
 * others. The same bits on every machine. */
void kv_geometry_frequencies(const kv_geometry *g, int windowed, float *out);

#endif
