/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer in flight: contract in sim/engine/layer.h. Its memory, and how its
 * cells begin and end; what is between is in sim/engine/layer_walk.c.
 */
#include "sim/engine/layer_part.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- life --------------------------------------------------------------- */

void kv_layer_close(kv_layer *l) {
  if (!l) return;
  for (int c = 0; l->full && c < l->cells; c++) l->backend->close(l->full[c]);
  for (int c = 0; l->left && c < l->cells; c++) l->backend->close(l->left[c]);
  for (int c = 0; l->before && c < l->cells; c++) free(l->before[c]);
  for (int c = 0; l->materialised && c < l->cells; c++)
    free(l->materialised[c]);
  free(l->full);
  free(l->left);
  free(l->store);
  for (int c = 0; l->flight && c < l->cells; c++)
    kv_layouts_flight_close(l->flight[c]);
  kv_tile_close(l->tile);
  free(l->before);
  free(l->materialised);
  free(l->flight);
  free(l->at);
  free(l->chunked);
  free(l);
}

void kv_layer_only(kv_layer *l, int n, const int *cell) {
  assert(n <= l->cells);
  memcpy(l->at, cell, (size_t)n * sizeof *cell);
  l->active = n;
}

/* The stores of cell c. */
static kv_rc open_stores(kv_layer *l, int c, kv_err *e) {
  kv_rc rc = l->backend->open(&l->cell[c]->plan, &l->full[c], e);
  l->store[c] = l->full[c];
  if (rc || !l->cell[c]->left_layer) return rc;
  return l->backend->open(&l->cell[c]->left, &l->left[c], e);
}

kv_rc kv_layer_open(const kv_backend *backend, kv_cell *const *cell, int cells,
                    const kv_watch *watch, kv_layer **out, kv_err *e) {
  kv_layer *l = kv_zalloc(1, sizeof *l);
  size_t n = (size_t)cells;
  if (!l) return kv_no_memory(e, "a layer", sizeof *l);
  *l = (kv_layer){.backend = backend,
                  .cells = cells,
                  .cell = cell,
                  .watch = watch,
                  .full = kv_zalloc(n, sizeof *l->full),
                  .left = kv_zalloc(n, sizeof *l->left),
                  .store = kv_zalloc(n, sizeof *l->store),
                  .before = kv_zalloc(n, sizeof *l->before),
                  .materialised = kv_zalloc(n, sizeof *l->materialised),
                  .flight = kv_zalloc(n, sizeof *l->flight),
                  .at = kv_zalloc(n, sizeof *l->at),
                  .chunked = kv_zalloc(n, sizeof *l->chunked)};
  kv_rc rc = KV_OK;
  if (!l->full || !l->left || !l->store || !l->before || !l->materialised ||
      !l->flight || !l->at || !l->chunked)
    rc = kv_no_memory(e, "a layer", n * sizeof *l->full);
  for (int c = 0; !rc && c < cells; c++) l->at[l->active++] = c;
  for (int c = 0; !rc && c < cells; c++) {
    rc = open_stores(l, c, e);
    if (rc) break;
    size_t lanes = (size_t)backend->lanes(l->store[c]);
    l->before[c] = kv_zalloc(lanes, sizeof **l->before);
    l->materialised[c] = kv_zalloc(lanes, sizeof **l->materialised);
    if (!l->before[c] || !l->materialised[c])
      rc = kv_no_memory(e, "a layer", lanes * sizeof(kv_bytes));
    if (!rc && cell[c]->layouts)
      rc = kv_layouts_flight_open(cell[c]->layouts, &l->flight[c], e);
  }
  if (rc)
    kv_layer_close(l);
  else
    *out = l;
  return rc;
}

kv_rc kv_layer_take_tile(kv_layer *l, const kv_kernels *exact, int steps,
                         kv_err *e) {
  const kv_shape *s = &l->cell[0]->shape;
  l->steps = steps;
  if (!exact) return KV_OK;
  return kv_tile_open(s, exact, s->n_kv_heads, steps, &l->tile, e);
}

/* --- begin and end ------------------------------------------------------ */

static void tell_finished(const kv_layer *l, int c, const kv_lane *lane) {
  for (const kv_watch *w = l->watch; w; w = w->next)
    if (kv_layer_watched(l, c, w) && w->finished)
      w->finished(w->self, l->data->layer, lane);
}

static void begin_cell(kv_layer *l, int c) {
  kv_cell *cell = l->cell[c];
  l->backend->begin(l->store[c], l->data);
  if (cell->fidelity) kv_fidelity_layer_begin(cell->fidelity, l->index);
  if (l->flight[c]) kv_layouts_flight_begin(l->flight[c], l->index);
}

/* If the cell itself has not failed, a fault of its layouts fails it. */
static void end_layouts(const kv_layer *l, int c, bool sound) {
  kv_err why = {0};
  if (!l->flight[c] || !sound) return;
  if (kv_layouts_flight_end(l->flight[c], &why))
    kv_cell_fail(l->cell[c], l->index, &why);
}

void kv_layer_begin(kv_layer *l, int index) {
  l->index = index;
  for (int c = 0; c < l->cells; c++)
    l->store[c] = kv_cell_leaves(l->cell[c], index) ? l->left[c] : l->full[c];
  l->data = &l->cell[0]->trace->layer[index].data;
  l->until = 0;
  for (int i = 0; i < l->active; i++) begin_cell(l, l->at[i]);
}

void kv_layer_copy(const kv_layer *from, kv_layer *to) {
  assert(from->cells == to->cells && from->index == to->index);
  assert(from->backend == to->backend && from->backend->copy);
  for (int c = 0; c < from->cells; c++) {
    assert(!from->flight[c] && "layouts are not copied");
    from->backend->copy(from->store[c], to->store[c]);
  }
}

bool kv_layer_failed(const kv_layer *l) {
  for (int i = 0; i < l->active; i++)
    if (l->backend->fault(l->store[l->at[i]])) return true;
  return false;
}

kv_rc kv_layer_end(kv_layer *l, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int n = 0; n < l->active; n++) {
    int c = l->at[n];
    kv_cell *cell = l->cell[c];
    kv_store *s = l->store[c];
    cell->digest[l->index] = l->backend->finish(s);
    const kv_err *fault = l->backend->fault(s);
    for (int i = 0; i < l->backend->lanes(s); i++) {
      const kv_lane *lane = l->backend->lane(s, i);
      kv_cost_kept(cell->cost, l->index, i, lane->n);
      tell_finished(l, c, lane);
    }
    if (fault && fault->rc == KV_RESOURCE)
      rc = kv_fail(e, KV_RESOURCE, "%s", fault->text);
    if (fault) kv_cell_fail(cell, l->index, fault);
    if (cell->fidelity) kv_fidelity_layer_end(cell->fidelity, l->index);
    end_layouts(l, c, !fault);
  }
  return rc;
}

const kv_lane *kv_layer_lane(const kv_layer *l, int cell, int lane) {
  return l->backend->lane(l->store[cell], lane);
}
