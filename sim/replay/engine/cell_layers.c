/* SPDX-License-Identifier: Apache-2.0
 *
 * A cell with a budget for each layer: contract in sim/replay/engine/cell.h.
 * The method is opened once for each layer of the model, recorded or not, as if
 * that layer's budget were the only one, so a layer runs exactly as in a cell
 * of that budget. Memory is allocated for the largest.
 */
#include "sim/replay/engine/cell.h"

#include "ref/lane/needs.h"
#include "sim/ask/param.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kv_rc kv_cell_take_list(kv_cell *c, const kv_budget *b, kv_err *e) {
  int n = b->layers ? b->layers : c->shape.n_layers;
  int *entries = kv_zalloc(2 * (size_t)n, sizeof *entries);
  if (!entries)
    return kv_no_memory(e, "budgets of layers",
                        2 * (size_t)n * sizeof *entries);
  int *of = entries + n;
  for (int l = 0; l < n; l++) of[l] = kv_cell_share_of(c, l);
  kv_rc rc = kv_budget_layers(b, n, of, entries, e);
  bool alike = !b->layers; /* do all layers have the same number? */
  for (int l = 1; alike && l < n; l++) alike = entries[l] == entries[0];
  if (!rc && alike)
    kv_param_put(kv_spec_budget(c->spec.method), entries[0], c->spec.params);
  if (!rc && !alike) rc = kv_spec_set_list(&c->spec, n, entries, e);
  free(entries);
  return rc;
}

kv_rc kv_cell_name_list(const kv_spec *s, char out[64], kv_err *e) {
  size_t n = (size_t)s->n_layers;
  char(*digits)[16] = kv_zalloc(n, sizeof *digits);
  const char **text = kv_zalloc(n, sizeof *text);
  kv_rc rc = KV_OK;
  if (!digits || !text)
    rc = kv_no_memory(e, "budgets of layers", n * sizeof *digits);
  for (size_t i = 0; !rc && i < n; i++) {
    snprintf(digits[i], sizeof digits[i], "%d", s->layers[i]);
    text[i] = digits[i];
  }
  if (!rc) kv_budget_name_layers(s->n_layers, text, out);
  free(digits);
  free(text);
  return rc;
}

int kv_cell_entries(const kv_cell *c, int index) {
  int layer = c->trace->layer[index].data.layer;
  return c->spec.layers && layer < c->spec.n_layers ? c->spec.layers[layer]
                                                    : c->result.budget;
}

int kv_cell_mean(const kv_cell *c) {
  int64_t sum = 0;
  int n = 0; /* layers on which the method runs */
  if (c->spec.n_layers != c->shape.n_layers) return -1; /* refused later */
  for (int i = 0; i < c->trace->n_layers; i++) {
    if (kv_cell_leaves(c, i)) continue;
    sum += kv_cell_entries(c, i);
    n++;
  }
  return n ? (int)(sum / n) : -1; /* refused later */
}

/* Opens the method for layer l with the specification's parameters and that
 * layer's budget. */
static kv_rc open_layer(kv_cell *c, int l, kv_err *e) {
  const kv_method *m = c->spec.method;
  char *params = c->params + (size_t)l * m->params_size;
  kv_plan *plan = &c->layer[l];
  kv_err why = {0};
  memcpy(params, c->spec.params, m->params_size);
  kv_param_put(kv_spec_budget(m), c->spec.layers[l], params);
  *plan = c->plan;
  plan->params = params;
  kv_rc rc = kv_cell_ask(c, params, &plan->needs, &why);
  if (rc)
    return kv_fail(e, rc, "layer %d, budget %d: %s", l, c->spec.layers[l],
                   why.text);
  return KV_OK;
}

/* Widens the cell's plan to hold what layer l needs. */
static kv_rc join_layer(kv_cell *c, int l, kv_err *e) {
  const char *other = kv_needs_widen(&c->plan.needs, &c->layer[l].needs);
  if (!other) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s stores other data at budget %d (layer %d) than at %d "
                 "(layer 0): its needs.%s differs; give such layers one budget",
                 c->spec.method->name, c->spec.layers[l], l, c->spec.layers[0],
                 other);
}

static kv_rc check_list(const kv_cell *c, kv_err *e) {
  const kv_method *m = c->spec.method;
  int n = c->shape.n_layers;
  if (m->spreads && !kv_cell_slides(c))
    return kv_fail(e, KV_REFUSED,
                   "%s divides one budget among the layers by its own rule; "
                   "give it one number, or give the list to snapkv",
                   m->name);
  if (c->spec.n_layers == n) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "the list has %d budgets but the model has %d layers (%d of "
                 "them recorded); give one budget for each layer of the model",
                 c->spec.n_layers, n, c->trace->n_layers);
}

kv_rc kv_cell_open_list(kv_cell *c, kv_err *e) {
  size_t n = (size_t)c->spec.n_layers, size = c->spec.method->params_size;
  kv_rc rc = check_list(c, e);
  if (rc) return rc;
  c->layer = kv_zalloc(n, sizeof *c->layer);
  c->params = kv_zalloc(n, size);
  if (!c->layer || !c->params)
    return kv_no_memory(e, "budgets of layers", n * (sizeof *c->layer + size));
  for (int l = 0; !rc && l < c->spec.n_layers; l++) rc = open_layer(c, l, e);
  if (rc) return rc;
  c->plan.params = c->params;
  c->plan.needs = c->layer[0].needs;
  c->plan.layer = c->layer;
  for (int l = 1; !rc && l < c->spec.n_layers; l++) rc = join_layer(c, l, e);
  return rc;
}

void kv_cell_tell_layers(kv_cell *c) {
  for (int l = 0; c->layer && l < c->spec.n_layers; l++) {
    c->layer[l].method = c->plan.method;
    c->layer[l].colsum = c->plan.colsum;
    c->layer[l].logits = c->plan.logits;
    c->layer[l].scores = c->plan.scores;
    c->layer[l].paged = c->plan.paged;
    c->layer[l].indices = c->plan.indices;
    c->layer[l].slides = c->plan.slides;
    c->layer[l].asked = c->plan.asked;
    c->layer[l].n_asked = c->plan.n_asked;
    c->layer[l].pieces = c->plan.pieces;
  }
  for (int l = 0; c->left_layer && l < c->shape.n_layers; l++) {
    c->left_layer[l].logits = c->left.logits = c->plan.logits;
    c->left_layer[l].scores = c->left.scores = c->plan.scores;
  }
}
