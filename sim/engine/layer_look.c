/* SPDX-License-Identifier: Apache-2.0
 *
 * What is measured, told and laid out between the engine's calls, of a layer in
 * flight: sim/engine/layer_part.h.
 */
#include "sim/engine/layer_part.h"

/* --- watches ------------------------------------------------------------- */

static void tell_compressed(const kv_layer *l, int c, int step,
                            const kv_lane *lane) {
  for (const kv_watch *w = l->watch; w; w = w->next)
    if (kv_layer_watched(l, c, w) && w->compressed)
      w->compressed(w->self, l->data->layer, step, lane);
}

static void tell_seen(const kv_layer *l, int c, int step, const kv_seen *seen) {
  for (const kv_watch *w = l->watch; w; w = w->next)
    if (kv_layer_watched(l, c, w) && w->seen)
      w->seen(w->self, l->data->layer, step, seen);
}

static void tell_row(const kv_layer *l, int c, const kv_seen *seen) {
  for (const kv_watch *w = l->watch; w; w = w->next)
    if (kv_layer_watched(l, c, w) && w->row)
      w->row(w->self, l->data->layer, seen);
}

/* --- measures ------------------------------------------------------------ */

/* Adds the bytes of a lane of a layer with a sliding window to *sum, as far as
 * its rows are the recorded ones without the entries that the token after its
 * last one does not see: no engine holds them until a compression. */
static void measure_window(const kv_lane *lane, kv_bytes *sum) {
  kv_lane held = *lane;
  int from = kv_layer_first(lane->data, lane->step);
  while (!lane->rewritten && held.n > 0 && (int64_t)held.id[0] < from) {
    held.id++;
    if (held.tier) held.tier++;
    held.n--;
  }
  kv_lane_bytes(&held, sum);
}

static void measure_before(void *self, int who, int lane) {
  const kv_look *k = self;
  kv_layer *l = k->layer;
  int c = k->cell[who];
  const kv_lane *stored = l->backend->lane(l->store[c], lane);
  kv_bytes *sum = &l->before[c][lane];
  *sum = (kv_bytes){0};
  if (l->data->window)
    measure_window(stored, sum);
  else
    kv_lane_bytes(stored, sum);
}

static void measure_row(void *self, int who, const kv_seen *seen) {
  const kv_look *k = self;
  const kv_layer *l = k->layer;
  kv_cell *cell = l->cell[k->cell[who]];
  const kv_truth *truth = k->worker->truth;
  kv_cost_row row = kv_cost_view(seen, k->worker->mark);
  if (kv_layer_plan(l, k->cell[who])->method->view)
    row.scanned = kv_lane_scanned(seen->lane);
  l->materialised[k->cell[who]][seen->lane->lane] = row.materialised;
  if (k->row) {
    if (cell->fidelity && truth && truth->finite)
      kv_fidelity_prompt_row(cell->fidelity, l->index, seen, k->worker->truth);
    tell_row(l, k->cell[who], seen);
    return;
  }
  kv_cost_read(cell->cost, l->index, k->block, &row);
  if (cell->fidelity && truth && truth->finite)
    kv_fidelity_row(cell->fidelity, l->index, seen, k->worker->truth);
  tell_seen(l, k->cell[who], k->step, seen);
}

/* Feeds the records of a compressed step to the layouts. */
static void lay_out(const kv_layer *l, int c, int block, int step) {
  kv_layouts_flight *f = l->flight[c];
  const kv_store *s = l->store[c];
  kv_layouts_flight_enter(f, block, step);
  for (int i = 0; i < l->backend->lanes(s); i++)
    kv_layouts_flight_follow(f, l->backend->lane(s, i));
  kv_layouts_flight_close_block(f);
}

/* Feeds a compressed step to the ledger and the layouts. */
static void account(void *self, int who) {
  const kv_look *k = self;
  const kv_layer *l = k->layer;
  int c = k->cell[who];
  const kv_store *s = l->store[c];
  const kv_cell *cell = l->cell[c];
  kv_bytes before = {0}, compressed = {0};
  int64_t materialised = 0;
  kv_cost_verbs verbs = {0};
  kv_shape shape = cell->shape;
  shape.prompt_len = kv_cell_prompt_at(cell, k->step);
  bool due = kv_plan_due(kv_layer_plan(l, c), l->data, &shape, k->step);
  for (int i = 0; i < l->backend->lanes(s); i++) {
    const kv_lane *lane = l->backend->lane(s, i);
    kv_cost_verbs v = kv_cost_lane_verbs(lane);
    kv_bytes_add(&before, &l->before[c][i]);
    materialised += l->materialised[c][i];
    l->materialised[c][i] = 0;
    if (due) kv_lane_bytes(lane, &compressed);
    verbs.records += v.records;
    verbs.moved += v.moved;
    if (due) tell_compressed(l, c, k->step, lane);
  }
  kv_cost_held(cell->cost, l->index, k->block, &before, materialised,
               due ? &compressed : &before);
  kv_cost_moved(cell->cost, l->index, &verbs);
  if (l->flight[c]) lay_out(l, c, k->block, k->step);
}

/* --- calls --------------------------------------------------------------- */

kv_rider kv_layer_rider(const kv_layer *l, int c, const kv_worker *worker) {
  const kv_needs *need = &kv_layer_plan(l, c)->needs;
  kv_messages *messages =
      kv_cell_leaves(l->cell[c], l->index) ? NULL : l->cell[c]->messages;
  return (kv_rider){.backend = l->backend,
                    .store = l->store[c],
                    .scratch = worker->scratch,
                    .alone =
                        need->block || need->reindex || l->cell[c]->shape.chunk,
                    .above = messages,
                    .below = messages,
                    .seconds = &worker->seconds[c]};
}

kv_order kv_layer_order(kv_look *k, int riders, const kv_rider *rider) {
  return (kv_order){.riders = riders,
                    .rider = rider,
                    .shared = k->worker->store,
                    .heads = k->layer->cell[0]->shape.n_kv_heads,
                    .closing = k->block,
                    .self = k,
                    .attended = measure_row,
                    .compresses = measure_before,
                    .closes = account};
}

void kv_layer_close_step(kv_layer *l, int c, int block, int step,
                         const kv_team *team) {
  kv_look k = {l, &c, &team->worker[0], block, step, false};
  kv_rider rider = kv_layer_rider(l, c, k.worker);
  kv_order o = kv_layer_order(&k, 1, &rider);
  kv_order_close(&o);
}

void kv_layer_open_step(kv_layer *l, int c, int block, const kv_team *team) {
  kv_look k = {
      .layer = l, .cell = &c, .worker = &team->worker[0], .block = block};
  kv_rider rider = kv_layer_rider(l, c, k.worker);
  kv_order o = kv_layer_order(&k, 1, &rider);
  kv_order_receive(&o);
}
