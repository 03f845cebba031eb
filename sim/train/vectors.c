/* SPDX-License-Identifier: Apache-2.0
 *
 * K and V of a token as one vector: sim/train/data.h.
 */
#include "sim/train/data.h"

/* Row t of head g of a matrix [heads][tokens][d]. */
static const void *row(const kv_shape *s, const void *of, int g, int t, int d) {
  size_t at = ((size_t)g * (size_t)s->n_tokens + (size_t)t) * (size_t)d;
  return (const char *)of + at * kv_dtype_size(s->dtype);
}

static void vector(const kv_train_trace *of, const kv_kernels *kernels,
                   const kv_layer_data *data, int t, float *out) {
  const kv_shape *s = &of->trace->shape;
  for (int g = 0; g < s->n_kv_heads; g++, out += s->d) {
    kernels->widen(s->dtype, row(s, data->k, g, t, s->d), (size_t)s->d, out);
    kv_turn_back(&of->turns, (uint32_t)t, out);
  }
  for (int g = 0; g < s->n_kv_heads; g++, out += s->d_v)
    kernels->widen(s->dtype, row(s, data->v, g, t, s->d_v), (size_t)s->d_v,
                   out);
}

void kv_train_vectors(const kv_train_trace *of, const kv_kernels *kernels,
                      int at, int first, int n, const int *token, float *out) {
  const kv_layer_data *data = &of->trace->layer[at].data;
  int width = kv_train_width(&of->trace->shape);
  for (int i = 0; i < n; i++)
    vector(of, kernels, data, token ? token[i] : first + i,
           out + (size_t)i * (size_t)width);
}
