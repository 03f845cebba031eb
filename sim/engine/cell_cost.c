/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger of a cell (sim/engine/cell.h): how it is opened, and its bytes
 * beside those of the dense cache.
 */
#include "sim/engine/cell.h"

#include <stdlib.h>

/* The number of the first layer of those that hold the rows that a step makes
 * together with the index-th: its own where it lets them go by itself. */
static int group_of(const kv_cell *c, int index) {
  const kv_plan *p = kv_cell_plan(c, index);
  int layer = c->trace->layer[index].data.layer;
  if (!p->method->temporary_from) return layer;
  return p->method->temporary_from(&c->shape, p->params, layer);
}

/* Whether any two hold theirs together: c->group then says which. */
static kv_rc find_groups(kv_cell *c, bool *any, kv_err *e) {
  size_t layers = (size_t)c->trace->n_layers;
  *any = false;
  c->group = kv_zalloc(layers, sizeof *c->group);
  if (!c->group) return kv_no_memory(e, "groups", layers * sizeof *c->group);
  for (size_t i = 0; i < layers; i++) {
    c->group[i] = group_of(c, (int)i);
    *any |= i > 0 && c->group[i] == c->group[i - 1];
  }
  return KV_OK;
}

/* Bytes of the last queries that methods are shown again with later chunks of
 * the prompt, in the trace's type, as an engine keeps them from chunk to chunk.
 * There are no more than the chunks before the last have. */
static int64_t queries_kept(const kv_cell *c) {
  const kv_shape *s = &c->shape;
  int64_t rows = 0, most = (int64_t)(c->blocks - 1) * s->chunk;
  for (int i = 0; i < c->trace->n_layers; i++) {
    int shown = kv_cell_plan(c, i)->needs.prompt_rows;
    if (shown < KV_ALL_ROWS) rows += shown < most ? shown : most;
  }
  return rows * s->n_heads * s->d * (int64_t)kv_dtype_size(s->dtype);
}

kv_rc kv_cell_open_cost(kv_cell *c, int lanes, bool apart, kv_err *e) {
  bool together;
  kv_rc rc = find_groups(c, &together, e);
  if (!rc)
    rc = kv_cost_open(&c->shape, c->trace->n_layers, lanes, c->blocks,
                      apart || together, &c->cost, e);
  if (rc) return rc;
  kv_cost_take_windows(c->cost, c->window, !kv_cell_slides(c));
  if (together) kv_cost_take_groups(c->cost, c->group);
  kv_cost_take_queries(c->cost, queries_kept(c));
  return KV_OK;
}

int64_t kv_cell_dense(const kv_cell *c, int first, int last, bool attended) {
  return kv_dense_tokens(c->trace->n_layers, c->window, first, last, attended) *
         c->shape.n_kv_heads * kv_token_bytes(&c->shape);
}

void kv_cell_in_basis(const kv_cell *c, kv_basis basis, int64_t *bytes,
                      int64_t *dense) {
  const kv_result *r = &c->result;
  int p = c->shape.prompt_len, t = c->shape.n_tokens;
  *dense = kv_cell_dense(c, t, t, false);
  switch (basis) {
  case KV_BASIS_MEAN:
    *bytes = r->totals.mti;
    *dense = kv_cell_dense(c, p, t, false);
    return;
  case KV_BASIS_PEAK:
    *bytes = r->totals.peak;
    return;
  case KV_BASIS_READ:
  case KV_BASIS_TRAFFIC:
    *bytes = 0;
    for (int i = 1; i < r->n_steps; i++)
      *bytes += r->step[i].read +
                (basis == KV_BASIS_TRAFFIC ? r->step[i].scanned : 0);
    *dense = kv_cell_dense(c, p + 1, t, true);
    return;
  default:
    *bytes = kv_bytes_total(&r->totals.end);
    return;
  }
}
