/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of DeltaKV share: a small layer, weights of the compressor
 * network made in memory, and the method's definition in binary64, which undoes
 * RoPE, measures distances and multiplies by itself and shares nothing with the
 * method.
 */
#ifndef KV_TESTS_DELTA_ACCOUNT_H
#define KV_TESTS_DELTA_ACCOUNT_H

#include "ref/parts/latents.h"
#include "tests/support/rig.h"

enum {
  DELTA_T = 60, /* tokens */
  DELTA_D = 4,  /* elements of a key, */
  DELTA_DV = 3, /* of a value */
  DELTA_H = 2,  /* KV heads */
  DELTA_W =
      DELTA_H * (DELTA_D + DELTA_DV), /* of a token's vector: K, V of all */
  DELTA_MOST = 64                     /* hidden and latent elements, at most */
};

/* Weights, as an asset points to them: do not copy one. */
typedef struct delta_weights {
  float x[KV_LATENT_TENSORS][2 * DELTA_MOST * DELTA_W]; /* the numbers */
  bool gated;                                           /* swiglu; else gelu */
  int hidden, latent;                                   /* elements */
  kv_tensor tensor[KV_LATENT_TENSORS];
  kv_asset_text text; /* metadata */
  int layer;          /* the only one of asset; 0 at first */
  kv_asset asset;     /* what the method reads */
} delta_weights;

/* Random weights of these sizes. */
void delta_draw(delta_weights *w, bool gated, int hidden, int latent);
/* gelu with square orthonormal maps and such large biases that GELU returns its
 * argument: coding and decoding a residual gives it back. */
void delta_orthonormal(delta_weights *w);
/* The same of swiglu, for vectors whose last element is 1, which opens every
 * gate so far that SiLU returns its argument. */
void delta_saturated(delta_weights *w);

/* Layer 0 of 8, 40 tokens of prompt, random data (rig_data_free) and the
 * weights (NULL: no file). */
rig_case delta_case(const delta_weights *w);

/* RoPE by p positions of a key in[DELTA_D]. */
void delta_turn(double p, const double *in, double *out);
/* The vector [DELTA_W] of token t: its keys, RoPE undone, and values. */
void delta_vector(const rig_case *c, int t, double *out);
/* The squared distance of two vectors. */
double delta_far(const double *a, const double *b);
/* The latent vector z of a vector x, and the vector that it decodes to. */
void delta_code(const delta_weights *w, const double *x, double *z);
void delta_decode(const delta_weights *w, const double *z, double *x);

/* The lanes of the rig's layer. */
void delta_lanes(const rig *r, kv_lane *lane[DELTA_H]);
/* The largest difference of an element between entry i of the lanes and the
 * vector `want` [DELTA_W], its keys turned to position i. */
double delta_off(const rig *r, int i, const double *want);

#endif
