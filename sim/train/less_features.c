/* SPDX-License-Identifier: Apache-2.0
 *
 * The perceptrons of LESS: sim/train/less_features.h.
 */
#include "sim/train/less_features.h"

#include "sim/train/net_bend.h"
#include <math.h>
#include <string.h>

/* Head h's part of an array, of `each` floats. */
static const float *part(const kv_train_task *q, int array, int h) {
  const kv_train_array *a = &q->t->array[array];
  return q->value + a->offset + (size_t)h * (a->count / (size_t)a->dim[0]);
}
static float *gradient(const kv_train_task *q, int array, int h) {
  const kv_train_array *a = &q->t->array[array];
  if (!q->gradient) return NULL;
  return q->gradient + a->offset + (size_t)h * (a->count / (size_t)a->dim[0]);
}

static kv_dense dense(const kv_train_task *q, int array, int h) {
  const kv_train_array *a = &q->t->array[array];
  return (kv_dense){.in = (int)a->dim[2],
                    .out = (int)a->dim[1],
                    .weight = part(q, array, h),
                    .weight_gradient = gradient(q, array, h)};
}

void kv_less_forth(const kv_train_task *q, int in, int out, int h, int n,
                   const float *x, kv_less_perceptron *p) {
  const kv_less_params *o = q->t->params;
  size_t hidden = (size_t)(n * o->hidden), low = (size_t)(n * o->rank);
  *p = (kv_less_perceptron){dense(q, in, h), dense(q, out, h), .n = n, .x = x};
  p->before = kv_scratch_take(q->scratch, hidden);
  p->after = kv_scratch_take(q->scratch, hidden);
  p->d_after = kv_scratch_take(q->scratch, hidden);
  p->low = kv_scratch_take(q->scratch, low);
  p->y = kv_scratch_take(q->scratch, low);
  p->d_low = kv_scratch_take(q->scratch, low);
  kv_dense_run(&p->in, n, x, p->before);
  kv_gelu_forth(hidden, p->before, p->after);
  kv_dense_run(&p->out, n, p->after, p->low);
  kv_gelu_forth(low, p->low, p->y);
}

void kv_less_back(const kv_less_perceptron *p, const float *d_y) {
  kv_gelu_back((size_t)(p->n * p->out.out), p->low, d_y, p->d_low);
  kv_dense_back(&p->out, p->n, p->after, p->d_low, p->d_after);
  kv_gelu_back((size_t)(p->n * p->in.out), p->before, p->d_after, p->d_after);
  kv_dense_back(&p->in, p->n, p->x, p->d_after, NULL);
}

void kv_less_keys_forth(const kv_train_task *q, int g, int n, const float *k,
                        kv_less_keys *x) {
  const kv_less_params *o = q->t->params;
  size_t low = (size_t)(n * o->rank), r = (size_t)o->rank;
  kv_less_forth(q, KV_LESS_KEY_IN, KV_LESS_KEY_OUT, g, n, k, &x->p);
  x->mix = dense(q, KV_LESS_KEY_MIX, g);
  x->scale = part(q, KV_LESS_KEY_SCALE, g);
  x->mix_scale = part(q, KV_LESS_KEY_MIX_SCALE, g);
  float **all[] = {&x->kappa, &x->mixed,   &x->psi,
                   &x->d_psi, &x->d_mixed, &x->d_kappa};
  for (int i = 0; i < 6; i++) *all[i] = kv_scratch_take(q->scratch, low);
  memset(x->d_psi, 0, low * sizeof(float));
  for (size_t i = 0; i < low; i++)
    x->kappa[i] = fabsf(x->scale[i % r]) * x->p.y[i];
  kv_dense_run(&x->mix, n, x->kappa, x->mixed);
  for (size_t i = 0; i < low; i++)
    x->psi[i] = x->kappa[i] + x->mix_scale[i % r] * x->mixed[i];
}

/* x->psi holds its own sign; d_psi is of its magnitude. */
void kv_less_keys_back(const kv_train_task *q, int g, const kv_less_keys *x) {
  size_t r = (size_t)x->mix.out, low = (size_t)x->p.n * r;
  float *d_scale = gradient(q, KV_LESS_KEY_SCALE, g);
  float *d_mix_scale = gradient(q, KV_LESS_KEY_MIX_SCALE, g);
  for (size_t i = 0; i < low; i++) {
    float d = x->d_psi[i] * kv_less_sign(x->psi[i]);
    x->d_psi[i] = d;
    d_mix_scale[i % r] += d * x->mixed[i];
    x->d_mixed[i] = d * x->mix_scale[i % r];
  }
  kv_dense_back(&x->mix, x->p.n, x->kappa, x->d_mixed, x->d_kappa);
  for (size_t i = 0; i < low; i++) {
    float d = x->d_kappa[i] + x->d_psi[i], a = x->scale[i % r];
    d_scale[i % r] += d * x->p.y[i] * kv_less_sign(a);
    x->d_kappa[i] = d * fabsf(a);
  }
  kv_less_back(&x->p, x->d_kappa);
}
