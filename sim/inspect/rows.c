/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/inspect/rows.h"

#include <stdlib.h>

#include "ref/ground/float.h"
#include "ref/ground/rope.h"

static void widen(const kv_kernels *kernel, const kv_shape *s, const void *from,
                  int g, int t, int d, float *to) {
  size_t at = ((size_t)g * (size_t)s->n_tokens + (size_t)t) * (size_t)d;
  kernel->widen(s->dtype, (const char *)from + at * kv_dtype_size(s->dtype),
                (size_t)d, to);
}

static void read_token(const kv_shape *s, const kv_layer_data *data,
                       const kv_kernels *kernel, const kv_turns *turns, int t,
                       float *row) {
  for (int g = 0; g < s->n_kv_heads; g++, row += s->d) {
    widen(kernel, s, data->k, g, t, s->d, row);
    kv_turn_back(turns, (uint32_t)t, row);
  }
  for (int g = 0; g < s->n_kv_heads; g++, row += s->d_v)
    widen(kernel, s, data->v, g, t, s->d_v, row);
}

static kv_rc check(const kv_trace *t, kv_err *e) {
  if (t->rope.inv_freq) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: keys as before their rotation need rope.inv_freq, which "
                 "the trace does not hold: record it again with the model's "
                 "frequencies",
                 t->path);
}

kv_rc kv_token_rows_open(const kv_trace *t, int i, const kv_kernels *kernel,
                         int threads, kv_token_rows *out, kv_err *e) {
  const kv_shape *s = &t->shape;
  kv_turns turns = {0};
  *out = (kv_token_rows){.n = s->n_tokens,
                         .width = s->n_kv_heads * (s->d + s->d_v),
                         .keys = s->n_kv_heads * s->d};
  size_t n = (size_t)out->n * (size_t)out->width;
  kv_rc rc = check(t, e);
  if (!rc) rc = kv_trace_scan_layer(t, i, e);
  if (!rc) rc = kv_turns_open(&t->rope, s->n_tokens, s->d, 0, &turns, e);
  if (!rc && !(out->row = kv_zalloc(n, sizeof *out->row)))
    rc = kv_no_memory(e, "vectors of tokens", n * sizeof *out->row);
  if (!rc) {
#pragma omp parallel num_threads(threads)
    {
      kv_float_ground();
#pragma omp for
      for (int j = 0; j < out->n; j++)
        read_token(s, &t->layer[i].data, kernel, &turns, j,
                   out->row + (size_t)j * (size_t)out->width);
    }
    rc = kv_trace_damaged(t, e);
  }
  kv_turns_close(&turns);
  return rc;
}

void kv_token_rows_close(kv_token_rows *r) {
  free(r->row);
  r->row = NULL;
}
