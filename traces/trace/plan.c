/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of a trace by its geometry: traces/trace/plan.h.
 */
#include "traces/trace/plan.h"

#include <stdlib.h>

static kv_rc make_layers(int n, kv_plan *out, kv_err *e) {
  out->layer = calloc((size_t)n, sizeof *out->layer);
  if (!out->layer)
    return kv_no_memory(e, "the layers", (size_t)n * sizeof *out->layer);
  for (out->n = 0; out->n < n; out->n++)
    out->layer[out->n] = (kv_plan_layer){.layer = out->n, .outputs = true};
  return KV_OK;
}

void kv_plan_anew(kv_plan *p) {
  for (int i = 0; i < p->n; i++) {
    kv_plan_layer *l = &p->layer[i];
    free(l->row);
    *l = (kv_plan_layer){l->layer, l->q_type, l->o_type, l->outputs,
                         false,    0,         NULL};
  }
}

void kv_plan_type(kv_plan *p, kv_dtype type) {
  p->shape.dtype = type;
  p->typed = true;
  for (int i = 0; i < p->n; i++) p->layer[i].q_type = p->layer[i].o_type = type;
}

kv_rc kv_plan_of_model(const kv_geometry *g, kv_plan *out, kv_err *e) {
  *out = (kv_plan){.shape = {.n_layers = g->n_layers,
                             .n_heads = g->n_heads,
                             .n_kv_heads = g->n_kv_heads,
                             .d = g->d,
                             .d_v = g->d},
                   .frequencies = g->window && g->theta_windowed > 0 ? 2 : 1,
                   .sinks = g->sinks != 0,
                   .tokens = true};
  kv_rc rc = make_layers(g->n_layers, out, e);
  if (!rc) kv_plan_type(out, g->dtype);
  return rc;
}

static kv_rc copy_rows(const kv_layer_data *x, kv_plan_layer *out, kv_err *e) {
  if (!x->rows) return KV_OK;
  size_t n = (size_t)x->n_rows;
  out->row = calloc(n, sizeof *out->row);
  if (!out->row) return kv_no_memory(e, "query rows", n * sizeof *out->row);
  for (int i = 0; i < x->n_rows; i++) out->row[i] = x->rows[i];
  out->rows = x->n_rows;
  return KV_OK;
}

static kv_rc copy_layer(const kv_recorded *x, kv_plan_layer *out, kv_err *e) {
  *out = (kv_plan_layer){.layer = x->data.layer,
                         .q_type = x->data.q_dtype,
                         .o_type = x->o ? x->o_type : x->data.q_dtype,
                         .outputs = x->o != NULL,
                         .sums = x->data.colsum != NULL};
  return copy_rows(&x->data, out, e);
}

kv_rc kv_plan_of_trace(const kv_trace *t, kv_plan *out, kv_err *e) {
  *out = (kv_plan){.shape = t->shape,
                   .typed = true,
                   .frequencies =
                       (t->rope.inv_freq != NULL) + (t->windowed_inv_freq != 0),
                   .sinks = t->layer[0].data.sinks != NULL,
                   .k_bias = t->layer[0].data.k_bias != NULL,
                   .tokens = t->tokens != NULL,
                   .positions = t->rope.positions != NULL};
  kv_rc rc = make_layers(t->n_layers, out, e);
  for (int i = 0; !rc && i < t->n_layers; i++)
    rc = copy_layer(&t->layer[i], &out->layer[i], e);
  return rc;
}

/* Checks that `keep` names only layers that exist. */
static kv_rc check(const kv_plan *p, const kv_keep *keep, kv_err *e) {
  for (int k = 0, i = 0; k < keep->n_layers; k++) {
    while (i < p->n && p->layer[i].layer < keep->layers[k]) i++;
    if (i < p->n && p->layer[i].layer == keep->layers[k]) continue;
    return kv_fail(
        e, KV_USAGE,
        "--layers names layer %d, but only %d can be recorded, from %d to %d",
        keep->layers[k], p->n, p->layer[0].layer, p->layer[p->n - 1].layer);
  }
  return KV_OK;
}

/* Is it more than the largest tensors of all layers can have? */
static bool beyond(const kv_plan *p) {
  double d = p->shape.d > p->shape.d_v ? p->shape.d : p->shape.d_v;
  return 64 * d * p->n * p->shape.n_heads * p->shape.n_tokens > 0x1p62;
}

/* Query rows of tokens from `first` on. */
static int rows_from(const kv_plan *p, const kv_plan_layer *l, int first) {
  int i = 0;
  if (!l->rows) return p->shape.n_tokens - first;
  while (i < l->rows && l->row[i] < first) i++;
  return l->rows - i;
}

static void add_layer(const kv_plan *p, const kv_plan_layer *l,
                      const kv_keep *keep, kv_cost *out) {
  const kv_shape *s = &p->shape;
  int first = kv_keep_first(keep, s->prompt_len);
  int64_t n = s->n_tokens, rows = rows_from(p, l, first), heads = s->n_heads;
  int64_t kept = n * s->n_kv_heads * (int64_t)kv_dtype_size(s->dtype);
  bool sums = l->sums || (first > 0 && rows_from(p, l, 0) == n);
  out->layers++;
  if (rows > out->rows) out->rows = (int)rows;
  out->k += kept * s->d;
  out->v += kept * s->d_v;
  out->q += heads * rows * s->d * (int64_t)kv_dtype_size(l->q_type);
  if (l->outputs && !keep->no_o)
    out->o += heads * rows * s->d_v * (int64_t)kv_dtype_size(l->o_type);
  if (sums && !keep->no_sums)
    out->sums += heads * s->prompt_len * (int64_t)sizeof(int64_t);
  if (first || l->rows) out->rest += rows * (int64_t)sizeof(int32_t);
  if (p->sinks) out->rest += heads * (int64_t)sizeof(float);
  if (p->k_bias)
    out->rest += (int64_t)s->n_kv_heads * s->d * (int64_t)sizeof(float);
}

kv_rc kv_plan_cost(const kv_plan *p, const kv_keep *keep, kv_cost *out,
                   kv_err *e) {
  const kv_shape *s = &p->shape;
  *out = (kv_cost){0};
  kv_rc rc = check(p, keep, e);
  if (rc) return rc;
  if (beyond(p))
    return kv_fail(e, KV_USAGE, "such a trace would exceed 2^62 bytes");
  for (int i = 0; i < p->n; i++)
    if (kv_keep_has(keep, p->layer[i].layer))
      add_layer(p, &p->layer[i], keep, out);
  if (out->rows == 0)
    return kv_fail(e, KV_USAGE,
                   "no query row is left, because there are no decode steps "
                   "and --rows decode keeps only those; give last=N");
  out->rest += (int64_t)p->frequencies * (s->d / 2) * (int64_t)sizeof(float);
  out->rest += 4 * (int64_t)s->n_tokens *
               ((p->tokens && !keep->no_tokens) + p->positions);
  out->all = out->k + out->v + out->q + out->o + out->sums + out->rest;
  return KV_OK;
}

void kv_plan_free(kv_plan *p) {
  for (int i = 0; p->layer && i < p->n; i++) free(p->layer[i].row);
  free(p->layer);
  *p = (kv_plan){0};
}
