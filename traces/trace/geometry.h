/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of known models, for synthetic traces: numbers from the models'
 * published configurations, no weights.
 */
#ifndef KV_TRACES_GEOMETRY_H
#define KV_TRACES_GEOMETRY_H

#include "ref/ground/shape.h"

typedef struct kv_geometry {
  const char *name;
  int n_layers, n_heads, n_kv_heads, d;
  float theta; /* base of the rotation frequencies */
  int llama3;  /* frequencies scaled as Llama 3.1 does */
  kv_dtype dtype;
} kv_geometry;

/* The table: *n entries. */
const kv_geometry *kv_geometries(int *n);
const kv_geometry *kv_geometry_find(const char *name);

/* out[d/2] = theta^(-2i/d), scaled where the geometry says so; by the
 * canonical exponential, so equal everywhere. */
void kv_geometry_frequencies(const kv_geometry *g, float *out);

#endif
