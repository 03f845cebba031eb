/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of less, shared with its CUDA twin (ref/lane/params.h), the
 * tensors of its file, and the arithmetic of a state.
 */
#ifndef KV_REF_METHODS_LESS_H
#define KV_REF_METHODS_LESS_H

#include "ref/ground/arith.h"
#include "ref/lane/method.h"
#include "ref/lane/params.h"

enum { H2O, LAMBDA }; /* policy */

/* Tensors of a layer, indexes of at->asset. */
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

#define PARAMS(P)                                                              \
  P(BUDGET, "heavy hitters or first tokens, plus recent; must be given")       \
  P(INT, recent, NULL, 0, 1 << 30, "tokens",                                   \
    "last tokens, always kept; default budget div 2 as in the paper, budget "  \
    "- min(4, budget - 1) with policy=lambda")                                 \
  P(CHOICE, policy, "h2o", "h2o|lambda",                                       \
    "what stays besides the last tokens: heavy hitters, or the first tokens")  \
  P(PART, kv_file file,                                                        \
    KV_FILE_PARAM(                                                             \
        "weights", params, file, KV_FILE_BESIDE, &kind,                        \
        "perceptrons: safetensors, as `kvreplay train less` writes them"))     \
  P(ONLY,                                                                      \
    int hidden) /* of the perceptrons, by open: widths within, and behind */   \
  P(ONLY, int rank) /* of the perceptrons, by open: widths within, and behind  \
                     */
KV_PARAMS(PARAMS);

#define KV_LESS_FLOOR 1e-6f /* least of phi(q) z, and of phi(q)'s elements */

/* A lane's state: the number of its tokens, z [rank], then H [rank][d_v]. */
typedef struct state {
  int32_t gone; /* tokens dropped into it */
  float z[1];   /* [rank], with H behind it */
} state;

/* H of a state, and the floats of z and H. */
KV_FN float *kv_less_h(state *s, const params *o) { return s->z + o->rank; }
KV_FN size_t kv_less_floats(const params *o, int d_v) {
  return (size_t)o->rank * ((size_t)d_v + 1);
}

/* |x|. */
KV_FN float kv_less_abs(float x) { return kv_float(kv_bits(x) & 0x7fffffffu); }
/* kappa of a key, by element: gelu is GELU of its perceptron, scale of
 * KEY_SCALE. psi: mix_scale of KEY_MIX_SCALE, mixed of KEY_MIX times kappa. */
KV_FN float kv_less_kappa(float scale, float gelu) {
  return kv_mul(kv_less_abs(scale), gelu);
}
KV_FN float kv_less_psi(float mix_scale, float mixed, float kappa) {
  return kv_less_abs(kv_fma(mix_scale, mixed, kappa));
}
/* The larger of x and the floor; an x that is not finite stays. */
KV_FN float kv_less_floor(float x) {
  return x > KV_LESS_FLOOR || !kv_finite(x) ? x : KV_LESS_FLOOR;
}

#endif
