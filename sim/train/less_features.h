/* SPDX-License-Identifier: Apache-2.0
 *
 * The perceptrons of LESS, forward and backward, for its trainer (less.c):
 * phi = |g(g(q A1) A2)| of a query head, psi = |kappa + b (kappa B)| of a KV
 * head, kappa = |a| g(g(k C1) C2), g = GELU.
 */
#ifndef KV_SIM_TRAIN_LESS_FEATURES_H
#define KV_SIM_TRAIN_LESS_FEATURES_H

#include "sim/train/net.h"
#include "sim/train/trainer.h"

typedef struct kv_less_params {
  int rank, hidden, budget, context;
} kv_less_params;

/* Arrays, in the order of declaration. */
enum {
  KV_LESS_QUERY_IN,
  KV_LESS_QUERY_OUT,
  KV_LESS_KEY_IN,
  KV_LESS_KEY_OUT,
  KV_LESS_KEY_MIX,
  KV_LESS_KEY_SCALE,
  KV_LESS_KEY_MIX_SCALE
};

/* g(g(x in) out) of n rows, with what the way back needs; in the scratch. */
typedef struct kv_less_perceptron {
  kv_dense in, out;
  int n;
  const float *x;
  float *before, *after, *low, *y, *d_low, *d_after;
} kv_less_perceptron;

/* Elements of scratch that one of n rows takes. */
static inline size_t kv_less_room(const kv_less_params *o, int n) {
  return (size_t)n * (3 * (size_t)o->hidden + 3 * (size_t)o->rank) + 16 * 16;
}

/* Of head h's arrays in and out; y has its sign. */
void kv_less_forth(const kv_train_task *q, int in, int out, int h, int n,
                   const float *x, kv_less_perceptron *p);
/* Adds the gradients; d_y is of y. */
void kv_less_back(const kv_less_perceptron *p, const float *d_y);

/* psi of the keys of a KV head; d_psi is of its magnitude, and added to by the
 * query heads. */
typedef struct kv_less_keys {
  kv_less_perceptron p;
  kv_dense mix;
  const float *scale, *mix_scale;
  float *kappa, *mixed, *psi, *d_psi, *d_mixed, *d_kappa;
} kv_less_keys;

void kv_less_keys_forth(const kv_train_task *q, int g, int n, const float *k,
                        kv_less_keys *x);
void kv_less_keys_back(const kv_train_task *q, int g, const kv_less_keys *x);

static inline float kv_less_sign(float x) { return x < 0 ? -1.0f : 1.0f; }

#endif
