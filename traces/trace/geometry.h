/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of known models (numbers from their published configurations, no
 * weights), for `kvtrace synth --like` and the synthetic traces of tests.
 */
#ifndef KV_TRACES_GEOMETRY_H
#define KV_TRACES_GEOMETRY_H

#include "ref/ground/shape.h"

typedef struct kv_geometry {
  const char *name; /* "llama-3.1-8b" */
  int n_layers;     /* of the model */
  int n_heads;      /* query heads of a layer, a multiple of */
  int n_kv_heads;   /* KV heads */
  int d;            /* dimension of q, k and v */
  float theta;      /* base of RoPE's frequencies */
  int llama3;       /* 1: frequencies scaled as Llama 3.1 does; else 0 */
  kv_dtype dtype;   /* of q, k, v and o */
} kv_geometry;

/* The table of known models, static; *n becomes its length. */
const kv_geometry *kv_geometries(int *n);
/* The one of that name, or NULL. */
const kv_geometry *kv_geometry_find(const char *name);

/* Writes RoPE's frequencies, radians a token, into out[g->d / 2]: element i is
 * theta^(-2 i / d), scaled where g->llama3 is set. The same bits everywhere. */
void kv_geometry_frequencies(const kv_geometry *g, float *out);

#endif
