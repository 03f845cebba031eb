/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeding traces to sessions: tests/support/feed.h.
 */
#include "tests/support/feed.h"

#include "tests/support/draw.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static float *sinks_of(const kv_trace *t) {
  size_t heads = (size_t)t->shape.n_heads;
  float *x = kv_zalloc((size_t)t->shape.n_layers * heads, sizeof *x);
  for (int i = 0; x && i < t->n_layers; i++) {
    const kv_layer_data *data = &t->layer[i].data;
    if (data->sinks)
      memcpy(x + (size_t)data->layer * heads, data->sinks, heads * sizeof *x);
  }
  return x;
}

static float *biases_of(const kv_trace *t) {
  size_t n = (size_t)t->shape.n_kv_heads * (size_t)t->shape.d;
  float *x = kv_zalloc((size_t)t->shape.n_layers * n, sizeof *x);
  for (int i = 0; x && i < t->n_layers; i++)
    memcpy(x + (size_t)t->layer[i].data.layer * n, t->layer[i].data.k_bias,
           n * sizeof *x);
  return x;
}

kv_session_shape feed_shape(const kv_trace *t) {
  const kv_shape *p = &t->shape;
  int32_t *fed = kv_zalloc((size_t)t->n_layers, sizeof *fed);
  int32_t *window = kv_zalloc((size_t)p->n_layers, sizeof *window);
  for (int i = 0; fed && window && i < t->n_layers; i++) {
    fed[i] = t->layer[i].data.layer;
    window[fed[i]] = t->layer[i].data.window;
  }
  return (kv_session_shape){
      .abi = KV_SESSION_ABI,
      .n_layers = p->n_layers,
      .n_heads = p->n_heads,
      .n_kv_heads = p->n_kv_heads,
      .d = p->d,
      .d_v = p->d_v,
      .n_tokens = p->n_tokens,
      .dtype = (int32_t)p->dtype,
      .scale = p->scale,
      .n_fed = t->n_layers,
      .fed = fed,
      .inv_freq = t->rope.inv_freq,
      .interleaved = t->rope.interleaved,
      .positions = t->rope.positions,
      .softcap = p->softcap,
      .window = window,
      .sinks = t->layer[0].data.sinks ? sinks_of(t) : NULL,
      .inv_freq_windowed = t->windowed_inv_freq,
      .k_bias = t->layer[0].data.k_bias ? biases_of(t) : NULL};
}

void feed_free(kv_session_shape *x) {
  free((void *)(uintptr_t)x->fed);
  free((void *)(uintptr_t)x->window);
  free((void *)(uintptr_t)x->sinks);
  free((void *)(uintptr_t)x->k_bias);
  x->fed = x->window = NULL;
  x->sinks = x->k_bias = NULL;
}

static kv_session_in rows(const kv_trace *t, const void *data, kv_dtype type,
                          int width, int first) {
  size_t skip = (size_t)first * (size_t)width * kv_dtype_size(type);
  return (kv_session_in){(const char *)data + skip, (int32_t)type, width,
                         (int64_t)t->shape.n_tokens * width};
}

kv_rc feed_rows(kv_session *s, const kv_trace *t, int i, int row, int first,
                int n, float *out, kv_err *e) {
  const kv_layer_data *data = &t->layer[i].data;
  const kv_shape *p = &t->shape;
  assert(!data->rows && "every query row is recorded");
  kv_session_in q = rows(t, data->q, data->q_dtype, p->d, row);
  kv_session_in k = rows(t, data->k, p->dtype, p->d, row);
  kv_session_in v = rows(t, data->v, p->dtype, p->d_v, row);
  kv_session_out o = {out, KV_F32, (int64_t)p->n_heads * p->d_v, p->d_v};
  return kv_session_block(s, data->layer, first + n, n, &q, &k, &v,
                          out ? &o : NULL, e);
}

kv_rc feed_block(kv_session *s, const kv_trace *t, int i, int first, int n,
                 float *out, kv_err *e) {
  return feed_rows(s, t, i, first, first, n, out, e);
}

kv_rc feed_all(kv_session *s, const kv_trace *t, uint64_t seed, kv_err *e) {
  int n = t->shape.n_tokens, p = t->shape.prompt_len, done = 0;
  int *at = kv_zalloc((size_t)t->n_layers, sizeof *at);
  if (!at) return kv_no_memory(e, "a walk", sizeof *at);
  kv_rc rc = KV_OK;
  while (!rc && done < t->n_layers) {
    int i = seed ? draw_below(&seed, t->n_layers) : done, m = 1;
    if (at[i] == n) continue;
    if (at[i] < p) m = seed ? 1 + draw_below(&seed, p - at[i]) : p;
    rc = feed_block(s, t, i, at[i], m, NULL, e);
    at[i] += m;
    done += at[i] == n;
  }
  free(at);
  return rc;
}
