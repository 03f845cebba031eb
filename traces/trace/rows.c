/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of probabilities: traces/trace/rows.h. Finds the largest logit and the
 * fixed-point sum of exponentials, and multiplies each by that sum's
 * reciprocal.
 */
#include "traces/trace/rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"

kv_rc kv_row_probs_init(kv_row_probs *x, const kv_shape *shape,
                        const kv_layer_data *data, const kv_kernels *kernel,
                        int tokens, kv_err *e) {
  int group = kv_group(shape), most = kv_row_probs_most(shape);
  size_t m = (size_t)(most * group), d = (size_t)shape->d, n = (size_t)tokens;
  *x = (kv_row_probs){.shape = shape,
                      .data = data,
                      .kernel = kernel,
                      .most = most,
                      .group = group,
                      .stride = n,
                      .p = kv_zalloc(m * n, sizeof *x->p),
                      .r = kv_zalloc(m, sizeof *x->r),
                      .q = kv_zalloc(m * d, sizeof *x->q),
                      .pack = kv_zalloc(KV_PACK * d, sizeof *x->pack),
                      .key = kv_zalloc(n, sizeof *x->key)};
  if (x->p && x->r && x->q && x->pack && x->key) return KV_OK;
  kv_row_probs_release(x);
  return kv_no_memory(e, "rows of attention", m * n * sizeof *x->p);
}

void kv_row_probs_release(kv_row_probs *x) {
  free(x->p);
  free(x->r);
  free(x->q);
  free(x->pack);
  free(x->key);
  *x = (kv_row_probs){0};
}

void kv_row_probs_head(kv_row_probs *x, int g) {
  const kv_shape *s = x->shape;
  size_t row = (size_t)s->d * kv_dtype_size(s->dtype);
  const char *k = x->data->k;
  k += (size_t)g * (size_t)s->n_tokens * row;
  for (size_t j = 0; j < x->stride; j++) x->key[j] = k + j * row;
  x->g = g;
}

static void load_queries(const kv_row_probs *x, int first, int count) {
  size_t d = (size_t)x->shape->d, size = kv_dtype_size(x->data->q_dtype);
  const char *q = x->data->q;
  for (int i = 0; i < count * x->group; i++) {
    size_t h = (size_t)(x->g * x->group + i % x->group);
    size_t row = h * (size_t)x->data->n_rows + (size_t)(first + i / x->group);
    x->kernel->widen(x->data->q_dtype, q + row * d * size, d,
                     x->q + (size_t)i * d);
  }
}

/* Computes row `token` of query head h of the layer from its logits at s: its
 * exponentials, 0 elsewhere from x->from to `end`, and *r = 1 / their sum.
 * False: a logit is not finite. */
static bool exponentials(const kv_row_probs *x, int h, int token, int end,
                         float *s, float *r) {
  const kv_kernels *f = x->kernel;
  int first = kv_layer_first(x->data, token), n = token + 1 - first;
  bool finite;
  memset(s + x->from, 0, (size_t)(first - x->from) * sizeof *s);
  memset(s + token + 1, 0, (size_t)(end - token - 1) * sizeof *s);
  s += first;
  float top = f->max_finite(s, n, &finite);
  if (!finite) return false;
  const float *sink = kv_layer_sink(x->data, h);
  if (sink) top = kv_max(top, *sink);
  int64_t mass = f->exp_sum(s, top, n, s);
  if (sink) mass += kv_fix_exp(kv_expm(kv_sub(*sink, top)));
  *r = kv_div(1.0f, kv_unfix(mass));
  return true;
}

bool kv_row_probs_exp(kv_row_probs *x, int first, int count) {
  const kv_shape *s = x->shape;
  int end = kv_row_token(x->data, first + count - 1) + 1;
  bool finite = true;
  assert(count >= 1 && count <= x->most && (size_t)end <= x->stride);
  x->from = kv_layer_first(x->data, kv_row_token(x->data, first));
  int n = end - x->from, m = count * x->group;
  float *p = x->p + x->from;
  load_queries(x, first, count);
  x->kernel->logits(m, n, s->d, x->q, (size_t)s->d, x->key + x->from, s->dtype,
                    s->scale, p, x->stride, x->pack);
  x->kernel->softcap(s->softcap, m, n, p, x->stride);
  for (int i = 0; i < m; i++)
    finite &= exponentials(x, x->g * x->group + i % x->group,
                           kv_row_token(x->data, first + i / x->group), end,
                           x->p + (size_t)i * x->stride,
                           x->r + i % x->group * x->most + i / x->group);
  return finite;
}

bool kv_row_probs_take(kv_row_probs *x, int first, int count) {
  if (!kv_row_probs_exp(x, first, count)) return false;
  for (int i = 0; i < count * x->group; i++) {
    float *p = x->p + (size_t)i * x->stride;
    int token = kv_row_token(x->data, first + i / x->group);
    memset(p, 0, (size_t)x->from * sizeof *p);
    x->kernel->scale(x->r[i % x->group * x->most + i / x->group],
                     token + 1 - x->from, p + x->from);
  }
  return true;
}
