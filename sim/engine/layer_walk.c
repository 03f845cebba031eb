/* SPDX-License-Identifier: Apache-2.0
 *
 * The prompt and the steps of a layer in flight: which cells share the engine's
 * calls (sim/engine/order.h), what is computed for all of them, and what is
 * measured between the calls.
 */
#include "sim/engine/layer_part.h"
#include "sim/engine/order.h"

#include <omp.h>

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

/* --- over KV heads ------------------------------------------------------ */

typedef struct work {
  kv_layer *layer;
  int cell, first, count; /* cell -1: all */
} work;

typedef void on_head(const work *w, int g, kv_worker *worker);

static void each_head(const work *w, const kv_team *team, on_head *run) {
  int heads = w->layer->cell[0]->shape.n_kv_heads;
  if (team->workers == 1) {
    for (int g = 0; g < heads; g++) run(w, g, &team->worker[0]);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(team->workers)
  for (int g = 0; g < heads; g++) {
    kv_float_ground();
    run(w, g, &team->worker[omp_get_thread_num()]);
  }
}

/* --- the engine's calls, looked at -------------------------------------- */

/* The `self` of the order's callbacks while some cells go through a block. */
typedef struct look {
  kv_layer *layer;
  const int *cell; /* of each rider */
  kv_worker *worker;
  int block, step; /* the block being closed; tokens seen at its end */
  bool row;        /* it is a row of the prompt */
} look;

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
  const look *k = self;
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
  const look *k = self;
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
  const look *k = self;
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

static kv_rider rider_of(const kv_layer *l, int c, const kv_worker *worker) {
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

static kv_order order_of(look *k, int riders, const kv_rider *rider) {
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

/* Closes a step of cell c, every KV head of which is compressed. */
static void close_step(kv_layer *l, int c, int block, int step,
                       const kv_team *team) {
  look k = {l, &c, &team->worker[0], block, step, false};
  kv_rider rider = rider_of(l, c, k.worker);
  kv_order o = order_of(&k, 1, &rider);
  kv_order_close(&o);
}

/* Opens a block or step of cell c, before any KV head. */
static void open_step(kv_layer *l, int c, int block, const kv_team *team) {
  look k = {.layer = l, .cell = &c, .worker = &team->worker[0], .block = block};
  kv_rider rider = rider_of(l, c, k.worker);
  kv_order o = order_of(&k, 1, &rider);
  kv_order_receive(&o);
}

/* --- prompt ------------------------------------------------------------- */

static bool unwanted(const kv_team *team) { return team->stop && team->stop(); }

static void enter_block(const work *w, int g, kv_worker *worker) {
  look k = {.layer = w->layer, .cell = &w->cell, .worker = worker};
  kv_rider rider = rider_of(w->layer, w->cell, worker);
  kv_order o = order_of(&k, 1, &rider);
  kv_order_prompt(&o, g, w->first, w->count);
}

void kv_layer_block(kv_layer *l, int c, int first, int count,
                    const kv_team *team) {
  int size = kv_cell_block(l->cell[c]), block = size ? first / size : 0;
  if (l->cell[c]->shape.chunk) l->backend->prompt(l->store[c], first + count);
  open_step(l, c, block, team);
  each_head(&(work){l, c, first, count}, team, enter_block);
  close_step(l, c, block, first + count, team);
}

/* A prompt in blocks: each block's observation covers what is stored and the
 * block itself. */
static void prompt_in_blocks(kv_layer *l, int c, const kv_team *team) {
  int size = l->cell[c]->plan.needs.block, p = l->cell[c]->shape.prompt_len;
  for (int first = 0; first < p && !unwanted(team); first += size)
    kv_layer_block(l, c, first, first + size < p ? size : p - first, team);
}

static void attend_row(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  look k = {.layer = l, .cell = &w->cell, .worker = worker, .row = true};
  kv_rider rider = rider_of(l, w->cell, worker);
  kv_order o = order_of(&k, 1, &rider);
  kv_known known = {0};
  if (worker->truth) kv_truth_fill(worker->truth, l->data, g, w->first, NULL);
  if (worker->truth && worker->truth->finite) {
    known = kv_truth_known(worker->truth);
    o.known = &known;
  }
  kv_order_row(&o, g, w->first);
}

static void end_rows(const work *w, int g, kv_worker *worker) {
  look k = {.layer = w->layer, .cell = &w->cell, .worker = worker};
  kv_rider rider = rider_of(w->layer, w->cell, worker);
  kv_order o = order_of(&k, 1, &rider);
  kv_order_rows_end(&o, g, w->first, w->count);
}

static void close_row(kv_layer *l, int c, const kv_team *team) {
  look k = {.layer = l, .cell = &c, .worker = &team->worker[0]};
  kv_rider rider = rider_of(l, c, k.worker);
  kv_order o = order_of(&k, 1, &rider);
  kv_order_row_close(&o);
}

void kv_layer_prompt_row(kv_layer *l, int c, int t, const kv_team *team) {
  int size = l->cell[c]->shape.chunk, p = l->cell[c]->shape.prompt_len;
  int block = t / size, first = block * size;
  int end = first + size < p ? first + size : p;
  if (t == first) {
    l->backend->prompt(l->store[c], end);
    open_step(l, c, block, team);
  }
  each_head(&(work){l, c, t, 1}, team, attend_row);
  if (t + 1 < end) {
    close_row(l, c, team);
    return;
  }
  each_head(&(work){l, c, first, end - first}, team, end_rows);
  close_step(l, c, block, end, team);
}

/* A prompt that is read in chunks. */
static void prompt_in_chunks(kv_layer *l, int c, const kv_team *team) {
  int size = l->cell[c]->shape.chunk, p = l->cell[c]->shape.prompt_len;
  kv_layer_block(l, c, 0, size < p ? size : p, team);
  for (int t = size; t < p && !unwanted(team); t++)
    kv_layer_prompt_row(l, c, t, team);
}

/* A prompt that enters at once has the same rows for every method, so its
 * observation is computed in one pass for all cells. Lanes with re-indexed
 * positions see other keys and are computed alone. */
static void enter_prompt(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  look k = {.layer = l, .cell = worker->who, .worker = worker};
  int n = 0;
  for (int i = 0; i < l->active; i++) {
    if (kv_cell_block(l->cell[l->at[i]])) continue;
    worker->who[n] = l->at[i];
    worker->rider[n++] = rider_of(l, l->at[i], worker);
  }
  kv_order o = order_of(&k, n, worker->rider);
  kv_order_prompt(&o, g, 0, l->cell[0]->shape.prompt_len);
}

void kv_layer_prompt(kv_layer *l, const kv_team *team) {
  for (int i = 0; i < l->active; i++)
    if (!kv_cell_block(l->cell[l->at[i]])) open_step(l, l->at[i], 0, team);
  each_head(&(work){l, -1, 0, 0}, team, enter_prompt);
  for (int i = 0; i < l->active && !unwanted(team); i++) {
    int c = l->at[i];
    if (l->cell[c]->shape.chunk)
      prompt_in_chunks(l, c, team);
    else if (l->cell[c]->plan.needs.block)
      prompt_in_blocks(l, c, team);
    else
      close_step(l, c, 0, l->cell[c]->shape.prompt_len, team);
  }
}

/* --- decode ------------------------------------------------------------- */

static int block_of(const kv_cell *cell, int t) {
  return cell->blocks + t - cell->shape.prompt_len;
}

static void decode(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  int t = w->first;
  kv_known known = {0};
  if (worker->truth) kv_truth_fill(worker->truth, l->data, g, t, l->tile);
  bool true_row = worker->truth && worker->truth->finite;
  if (true_row) known = kv_truth_known(worker->truth);
  for (int i = 0; i < l->active; i++) {
    int c = l->at[i];
    look k = {l, &c, worker, block_of(l->cell[c], t), t + 1, false};
    kv_rider rider = rider_of(l, c, worker);
    kv_order o = order_of(&k, 1, &rider);
    if (true_row) o.known = &known;
    kv_order_decode(&o, g, t);
  }
}

/* The exact rows of a tile of steps, then what each cell makes of them. */
static void fill_tile(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  look k = {.layer = l, .cell = worker->who, .worker = worker};
  kv_tile_fill(l->tile, g, l->data, g, w->first, w->count,
               &worker->truth->attend);
  kv_tile_row row = kv_tile_at(l->tile, g, w->first);
  kv_known known = {.q = row.q, .s = row.s, .stride = l->tile->stride};
  for (int i = 0; i < l->active; i++)
    worker->rider[i] = rider_of(l, l->at[i], worker);
  kv_order o = order_of(&k, l->active, worker->rider);
  kv_order_ahead(&o, g, w->first, w->count,
                 kv_tile_sound(l->tile, g) ? &known : NULL);
}

/* Decode steps from t on until the next question, or the end. */
static int steps_left(const kv_cell *c, int t) {
  for (int i = 0; i < c->turns; i++)
    if (c->turn[i].first > t) return c->turn[i].first - t;
  return c->shape.n_tokens - t;
}

/* The exact rows of the steps from t on, unless they are there. */
static void look_ahead(kv_layer *l, int t, const kv_team *team) {
  int left = steps_left(l->cell[0], t);
  if (!l->tile || kv_tile_has(l->tile, 0, t)) return;
  int rows = left < l->tile->steps ? left : l->tile->steps;
  each_head(&(work){l, -1, t, rows}, team, fill_tile);
}

void kv_layer_step(kv_layer *l, int t, const kv_team *team) {
  look_ahead(l, t, team);
  for (int i = 0; i < l->active; i++)
    open_step(l, l->at[i], block_of(l->cell[l->at[i]], t), team);
  each_head(&(work){l, -1, t, 1}, team, decode);
  for (int i = 0; i < l->active; i++)
    close_step(l, l->at[i], block_of(l->cell[l->at[i]], t), t + 1, team);
}

/* --- later prompts ------------------------------------------------------ */

/* A question of one cell, whose lanes hold what no other's do. */
static void ask(kv_layer *l, int c, const kv_asking *q, const kv_team *team) {
  const kv_cell *cell = l->cell[c];
  int size = cell->plan.needs.block, end = q->first + q->count;
  l->backend->prompt(l->store[c], end);
  for (int t = q->first, n; t < end && !unwanted(team); t += n) {
    n = size && t + size < end ? size : end - t;
    int block = block_of(cell, t + n - 1);
    open_step(l, c, block, team);
    each_head(&(work){l, c, t, n}, team, enter_block);
    close_step(l, c, block, t + n, team);
  }
}

int kv_layer_advance(kv_layer *l, int t, const kv_team *team) {
  const kv_asking *q = kv_cell_asks(l->cell[0], t);
  if (!q) {
    kv_layer_step(l, t, team);
    return 1;
  }
  for (int i = 0; i < l->active; i++) ask(l, l->at[i], q, team);
  return q->count;
}
