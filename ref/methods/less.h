/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of less: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/less.c), the
 * tensors of its file, and the arithmetic of a state.
 */
#ifndef KV_REF_METHODS_LESS_H
#define KV_REF_METHODS_LESS_H

#include "ref/ground/arith.h"
#include "ref/lane/method.h"

enum { H2O, LAMBDA }; /* policy */

/* Tensors of a layer, in the order of the table. */
enum {
  QUERY_IN,
  QUERY_OUT,
  KEY_IN,
  KEY_OUT,
  KEY_SCALE,
  KEY_MIX,
  KEY_MIX_SCALE,
  TENSORS
};

typedef struct params {
  kv_file file;
  int budget, recent, policy;
  int hidden, rank; /* of the perceptrons, by open */
} params;

#define KV_LESS_FLOOR                                                          \
  1e-6f /* of what is divided by, as in the authors' code                      \
         */

/* A lane's state: how many tokens it stands for, then z [rank], then
 * H [rank][d_v]. */
typedef struct state {
  int32_t gone;
  float z[1];
} state;

KV_FN float *kv_less_h(state *s, const params *o) { return s->z + o->rank; }
KV_FN size_t kv_less_floats(const params *o, int d_v) {
  return (size_t)o->rank * ((size_t)d_v + 1);
}

KV_FN float kv_less_abs(float x) { return kv_float(kv_bits(x) & 0x7fffffffu); }
/* kappa of a key from GELU of its perceptron, and psi from kappa and the
 * product of kappa and the mix. */
KV_FN float kv_less_kappa(float scale, float gelu) {
  return kv_mul(kv_less_abs(scale), gelu);
}
KV_FN float kv_less_psi(float mix_scale, float mixed, float kappa) {
  return kv_less_abs(kv_fma(mix_scale, mixed, kappa));
}
KV_FN float kv_less_floor(float x) {
  return x > KV_LESS_FLOOR || !kv_finite(x) ? x : KV_LESS_FLOOR;
}

#endif
