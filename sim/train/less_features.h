/* SPDX-License-Identifier: Apache-2.0
 *
 * The perceptrons of LESS, forward and backward, for its trainer (less.c):
 * phi = |g(g(q A1) A2)| of a query head, psi = |kappa + b (kappa B)| of a KV
 * head, kappa = |a| g(g(k C1) C2), g = GELU. Weights, gradients and scratch are
 * those of the task q; a backward call comes after its forward one, while the
 * scratch is as it was, and adds to the task's gradients. One thread a task;
 * nothing fails, as the scratch was reserved (kv_less_room).
 */
#ifndef KV_SIM_TRAIN_LESS_FEATURES_H
#define KV_SIM_TRAIN_LESS_FEATURES_H

#include "sim/train/net.h"
#include "sim/train/trainer.h"

/* The trainer's parameters (less.c has their help). */
typedef struct kv_less_params {
  int rank;    /* width of phi and psi */
  int hidden;  /* units between */
  int budget;  /* tokens that the policy keeps */
  int context; /* tokens of a piece that are looked at */
} kv_less_params;

/* Arrays, in the order of declaration: [query or KV heads][..] each. */
enum {
  KV_LESS_QUERY_IN,     /* A1 [hidden][d] */
  KV_LESS_QUERY_OUT,    /* A2 [rank][hidden] */
  KV_LESS_KEY_IN,       /* C1 [hidden][d] */
  KV_LESS_KEY_OUT,      /* C2 [rank][hidden] */
  KV_LESS_KEY_MIX,      /* B [rank][rank] */
  KV_LESS_KEY_SCALE,    /* a [rank] */
  KV_LESS_KEY_MIX_SCALE /* b [rank] */
};

/* g(g(x in) out) of n rows, with what the way back needs; in the scratch. */
typedef struct kv_less_perceptron {
  kv_dense in, out; /* its two layers */
  int n;
  const float *x;         /* [n][d], borrowed */
  float *before, *after;  /* [n][hidden] before and after the first GELU */
  float *low, *y;         /* [n][rank] before and after the second */
  float *d_low, *d_after; /* gradients, for the way back */
} kv_less_perceptron;

/* Floats of scratch that one perceptron of n rows takes. */
static inline size_t kv_less_room(const kv_less_params *o, int n) {
  return (size_t)n * (3 * (size_t)o->hidden + 3 * (size_t)o->rank) + 16 * 16;
}

/* p: x[n][d] through the arrays `in` and `out` of head h; p->y still has its
 * sign. */
void kv_less_forth(const kv_train_task *q, int in, int out, int h, int n,
                   const float *x, kv_less_perceptron *p);
/* Adds the gradients of both arrays; d_y[n][rank] is that of p->y. */
void kv_less_back(const kv_less_perceptron *p, const float *d_y);

/* psi of the keys of a KV head. */
typedef struct kv_less_keys {
  kv_less_perceptron p;           /* g(g(k C1) C2) */
  kv_dense mix;                   /* B */
  const float *scale, *mix_scale; /* a, b */
  float *kappa, *mixed;           /* [n][rank] kappa; kappa B */
  float *psi;                     /* [n][rank] with its sign */
  float *d_psi; /* [n][rank] the gradient of |psi|, 0 after forth, to which the
                   caller adds */
  float *d_mixed, *d_kappa; /* for the way back */
} kv_less_keys;

/* x: psi of the keys k[n][d] of KV head g; and back, from x->d_psi. */
void kv_less_keys_forth(const kv_train_task *q, int g, int n, const float *k,
                        kv_less_keys *x);
void kv_less_keys_back(const kv_train_task *q, int g, const kv_less_keys *x);

/* -1 below 0, else 1. */
static inline float kv_less_sign(float x) { return x < 0 ? -1.0f : 1.0f; }

#endif
