/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of a trace by its geometry: traces/trace/plan.h.
 */
#include "traces/trace/plan.h"

#include <stdlib.h>

static kv_rc make_layers(int n, kv_plan *out, kv_err *e) {
  out->layer = calloc((size_t)n, sizeof *out->layer);
  if (!out->layer) return kv_no_memory(e, "the layers", (size_t)n * 4);
  for (out->n = 0; out->n < n; out->n++) out->layer[out->n] = out->n;
  return KV_OK;
}

kv_rc kv_plan_of_model(const kv_geometry *g, kv_plan *out, kv_err *e) {
  *out = (kv_plan){.shape = {.n_layers = g->n_layers,
                             .n_heads = g->n_heads,
                             .n_kv_heads = g->n_kv_heads,
                             .d = g->d,
                             .d_v = g->d,
                             .dtype = g->dtype},
                   .q_type = g->dtype,
                   .o_type = g->dtype,
                   .typed = true,
                   .frequencies = g->window && g->theta_windowed > 0 ? 2 : 1,
                   .sinks = g->sinks != 0,
                   .outputs = true,
                   .tokens = true};
  return make_layers(g->n_layers, out, e);
}

static kv_rc copy_rows(const kv_layer_data *x, kv_plan *out, kv_err *e) {
  if (!x->rows) return KV_OK;
  size_t n = (size_t)x->n_rows;
  out->row = calloc(n, sizeof *out->row);
  if (!out->row) return kv_no_memory(e, "query rows", n * sizeof *out->row);
  for (int i = 0; i < x->n_rows; i++) out->row[i] = x->rows[i];
  out->rows = x->n_rows;
  return KV_OK;
}

kv_rc kv_plan_of_trace(const kv_trace *t, kv_plan *out, kv_err *e) {
  const kv_recorded *first = t->layer;
  *out = (kv_plan){.shape = t->shape,
                   .q_type = first->data.q_dtype,
                   .o_type = first->o ? first->o_type : t->shape.dtype,
                   .typed = true,
                   .frequencies =
                       (t->rope.inv_freq != NULL) + (t->windowed_inv_freq != 0),
                   .sinks = first->data.sinks != NULL,
                   .outputs = first->o != NULL,
                   .tokens = t->tokens != NULL,
                   .positions = t->rope.positions != NULL,
                   .sums = first->data.colsum != NULL};
  kv_rc rc = make_layers(t->n_layers, out, e);
  for (int i = 0; !rc && i < t->n_layers; i++)
    out->layer[i] = t->layer[i].data.layer;
  return rc ? rc : copy_rows(&first->data, out, e);
}

/* The layers that `keep` keeps. */
static kv_rc count(const kv_plan *p, const kv_keep *keep, int *out, kv_err *e) {
  *out = 0;
  for (int i = 0; i < p->n; i++) *out += kv_keep_has(keep, p->layer[i]);
  if (keep->n_layers == 0 || *out == keep->n_layers) return KV_OK;
  for (int k = 0, i = 0; k < keep->n_layers; k++) {
    while (i < p->n && p->layer[i] < keep->layers[k]) i++;
    if (i < p->n && p->layer[i] == keep->layers[k]) continue;
    return kv_fail(e, KV_USAGE,
                   "--layers names layer %d; there are %d that can be "
                   "recorded, from %d to %d",
                   keep->layers[k], p->n, p->layer[0], p->layer[p->n - 1]);
  }
  return KV_OK;
}

/* heads rows of d numbers of a type, in every layer. */
static int64_t bytes(const kv_cost *c, int heads, int rows, int d,
                     size_t size) {
  return (int64_t)c->layers * heads * rows * d * (int64_t)size;
}

/* More than the largest tensors of all layers can have. */
static bool beyond(const kv_plan *p, const kv_cost *c) {
  double d = p->shape.d > p->shape.d_v ? p->shape.d : p->shape.d_v;
  return 64 * d * c->layers * p->shape.n_heads * p->shape.n_tokens > 0x1p62;
}

/* Query rows of tokens from `first` on. */
static int rows_from(const kv_plan *p, int first) {
  int i = 0;
  if (!p->rows) return p->shape.n_tokens - first;
  while (i < p->rows && p->row[i] < first) i++;
  return p->rows - i;
}

kv_rc kv_plan_cost(const kv_plan *p, const kv_keep *keep, kv_cost *out,
                   kv_err *e) {
  const kv_shape *s = &p->shape;
  int first = kv_keep_first(keep, s->prompt_len), n = s->n_tokens;
  bool sums = p->sums || (first > 0 && rows_from(p, 0) == n);
  *out = (kv_cost){.rows = rows_from(p, first)};
  kv_rc rc = count(p, keep, &out->layers, e);
  if (rc) return rc;
  if (out->rows == 0)
    return kv_fail(e, KV_USAGE,
                   "no query row is left: there are no decode steps, and "
                   "--rows decode takes these alone; give last=N");
  if (beyond(p, out))
    return kv_fail(e, KV_USAGE, "such a trace is beyond 2^62 bytes");
  size_t size = kv_dtype_size(s->dtype);
  out->k = bytes(out, s->n_kv_heads, n, s->d, size);
  out->v = bytes(out, s->n_kv_heads, n, s->d_v, size);
  out->q = bytes(out, s->n_heads, out->rows, s->d, kv_dtype_size(p->q_type));
  if (p->outputs && !keep->no_o)
    out->o =
        bytes(out, s->n_heads, out->rows, s->d_v, kv_dtype_size(p->o_type));
  if (sums && !keep->no_sums)
    out->sums = bytes(out, s->n_heads, s->prompt_len, 1, sizeof(int64_t));
  if (first || p->rows)
    out->rest += bytes(out, 1, out->rows, 1, sizeof(int32_t));
  if (p->sinks) out->rest += bytes(out, s->n_heads, 1, 1, sizeof(float));
  out->rest += (int64_t)p->frequencies * (s->d / 2) * (int64_t)sizeof(float);
  out->rest +=
      4 * (int64_t)n * ((p->tokens && !keep->no_tokens) + p->positions);
  out->all = out->k + out->v + out->q + out->o + out->sums + out->rest;
  return KV_OK;
}

void kv_plan_free(kv_plan *p) {
  free(p->layer);
  free(p->row);
  *p = (kv_plan){0};
}
