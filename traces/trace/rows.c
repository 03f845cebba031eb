/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of probabilities: traces/trace/rows.h. The largest logit, the
 * fixed-point sum of exponentials, and each times that sum's reciprocal.
 */
#include "traces/trace/rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ground/arith.h"

kv_rc kv_rows_init(kv_rows *x, const kv_shape *shape, const kv_layer_data *data,
                   const kv_kernels *kernel, int tokens, kv_err *e) {
  int group = kv_group(shape), most = kv_rows_most(shape);
  size_t m = (size_t)(most * group), d = (size_t)shape->d, n = (size_t)tokens;
  *x = (kv_rows){.shape = shape,
                 .data = data,
                 .kernel = kernel,
                 .most = most,
                 .group = group,
                 .stride = n,
                 .p = kv_zalloc(m * n, sizeof *x->p),
                 .q = kv_zalloc(m * d, sizeof *x->q),
                 .pack = kv_zalloc(KV_PACK * d, sizeof *x->pack),
                 .key = kv_zalloc(n, sizeof *x->key)};
  if (x->p && x->q && x->pack && x->key) return KV_OK;
  kv_rows_release(x);
  return kv_no_memory(e, "rows of attention", m * n * sizeof *x->p);
}

void kv_rows_release(kv_rows *x) {
  free(x->p);
  free(x->q);
  free(x->pack);
  free(x->key);
  *x = (kv_rows){0};
}

void kv_rows_head(kv_rows *x, int g) {
  const kv_shape *s = x->shape;
  size_t row = (size_t)s->d * kv_dtype_size(s->dtype);
  const char *k = x->data->k;
  k += (size_t)g * (size_t)s->n_tokens * row;
  for (size_t j = 0; j < x->stride; j++) x->key[j] = k + j * row;
  x->g = g;
}

static void load_queries(const kv_rows *x, int first, int count) {
  size_t d = (size_t)x->shape->d, size = kv_dtype_size(x->data->q_dtype);
  const char *q = x->data->q;
  for (int i = 0; i < count * x->group; i++) {
    size_t h = (size_t)(x->g * x->group + i % x->group);
    size_t row = h * (size_t)x->data->n_rows + (size_t)(first + i / x->group);
    x->kernel->widen(x->data->q_dtype, q + row * d * size, d,
                     x->q + (size_t)i * d);
  }
}

/* Of row `token` of query head h of the layer, whose logits are at s. False:
 * the sum of exponentials is none, as a logit was none. */
static bool normalise(const kv_rows *x, int h, int token, float *s) {
  const kv_kernels *f = x->kernel;
  int first = kv_layer_first(x->data, token), n = token + 1 - first;
  memset(s, 0, (size_t)first * sizeof *s);
  s += first;
  float top = f->max(s, n);
  for (int j = 0; j < n; j++)
    if (!kv_finite(s[j])) return false;
  const float *sink = kv_layer_sink(x->data, h);
  if (sink) top = kv_max(top, *sink);
  int64_t mass = f->exp_sum(s, top, n, s);
  if (sink) mass += kv_fix_exp(kv_expm(kv_sub(*sink, top)));
  f->scale(kv_div(1.0f, kv_unfix(mass)), n, s);
  return true;
}

bool kv_rows_take(kv_rows *x, int first, int count) {
  const kv_shape *s = x->shape;
  int n = kv_row_token(x->data, first + count - 1) + 1;
  bool finite = true;
  assert(count >= 1 && count <= x->most && (size_t)n <= x->stride);
  load_queries(x, first, count);
  x->kernel->logits(count * x->group, n, s->d, x->q, (size_t)s->d, x->key,
                    s->dtype, s->scale, x->p, x->stride, x->pack);
  x->kernel->softcap(s->softcap, count * x->group, n, x->p, x->stride);
  for (int i = 0; i < count * x->group; i++)
    finite &= normalise(x, x->g * x->group + i % x->group,
                        kv_row_token(x->data, first + i / x->group),
                        x->p + (size_t)i * x->stride);
  return finite;
}
