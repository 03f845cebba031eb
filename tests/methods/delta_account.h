/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of DeltaKV share: a small layer, weights that no file holds,
 * and the definition in binary64, which turns keys back, measures distances and
 * multiplies itself and shares nothing with the method.
 */
#ifndef KV_TESTS_DELTA_ACCOUNT_H
#define KV_TESTS_DELTA_ACCOUNT_H

#include "ref/parts/latents.h"
#include "tests/support/rig.h"

enum {
  DELTA_T = 60,
  DELTA_D = 4,
  DELTA_DV = 3,
  DELTA_H = 2,
  DELTA_W = DELTA_H * (DELTA_D + DELTA_DV),
  DELTA_MOST = 64 /* hidden and latent elements */
};

typedef struct delta_weights {
  float x[KV_LATENT_TENSORS][2 * DELTA_MOST * DELTA_W];
  bool gated;
  int hidden, latent;
  kv_tensor tensor[KV_LATENT_TENSORS];
  kv_asset_text text;
  int layer;
  kv_asset asset; /* of `layer` alone, 0 at first */
} delta_weights;

/* Drawn, swiglu (gated) or gelu. */
void delta_draw(delta_weights *w, bool gated, int hidden, int latent);
/* gelu with square orthonormal maps, biased so far up that GELU gives back what
 * it gets: f_d(f_c(x) - f_c(m)) + m = x. */
void delta_orthonormal(delta_weights *w);
/* swiglu with square maps, orthonormal up to a power of two, of vectors whose
 * last element is 1: it opens every gate so far that SiLU gives back what it
 * gets, and f_d(f_c(x) - f_c(m)) + m = x. */
void delta_saturated(delta_weights *w);

/* A layer of 8, 40 tokens of prompt; w NULL: no file. rig_data_free. */
rig_case delta_case(const delta_weights *w);

/* A key turned by p positions, and the vector of token t. */
void delta_turn(double p, const double *in, double *out);
void delta_vector(const rig_case *c, int t, double *out);
double delta_far(const double *a, const double *b);
void delta_code(const delta_weights *w, const double *x, double *z);
void delta_decode(const delta_weights *w, const double *z, double *x);

/* Lanes of the rig's layer. */
void delta_lanes(const rig *r, kv_lane *lane[DELTA_H]);
/* The largest difference of entry i of all lanes, keys turned forward, from a
 * vector. */
double delta_off(const rig *r, int i, const double *want);

#endif
