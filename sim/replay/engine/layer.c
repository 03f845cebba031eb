/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer of the model in flight, from kv_layer_open to kv_layer_close:
 * contract in sim/replay/engine/layer.h. Decides which cells share the engine's
 * calls (sim/replay/engine/order.h), what is computed once for all of them, and
 * what is measured, reported and laid out between calls. One thread calls at a
 * time; the threads of its team each take different KV heads.
 */
#include "sim/replay/engine/layer.h"

#include "sim/replay/engine/order.h"
#include <assert.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

struct kv_layer {
  const kv_backend *backend;
  int cells;                  /* of the replay, whether they take part or not */
  kv_cell *const *cell;       /* [cells] */
  int active;                 /* cells that take part */
  int *at;                    /* [active] their numbers */
  int *chunked;               /* [cells] scratch: cells that read the prompt in
                                 chunks of the same size */
  kv_store **store;           /* [cells] of the layer in flight: full or left */
  kv_store **full, **left;    /* [cells] layers left to a sliding window use
                                 `left`; NULL: there is none */
  kv_bytes **before;          /* [cells][lanes] of the block in progress */
  int64_t **materialised;     /* [cells][lanes] bytes of that block
                                 (kv_cost_row.materialised) */
  kv_layouts_flight **flight; /* [cells] of memory layouts, or NULL */
  int steps;                  /* most rows computed ahead; below 2: none */
  int until;                  /* the rows before this token are computed */
  kv_tile *tile;              /* the exact rows of those, or NULL: not needed */
  const kv_watch *watch;      /* callbacks, or NULL */
  int index;                  /* of the layer among the recorded ones */
  const kv_layer_data *data;  /* its q, k and v */
};

/* The plan of cell c on the layer in flight. */
static inline const kv_plan *kv_layer_plan(const kv_layer *l, int c) {
  return kv_cell_plan(l->cell[c], l->index);
}

/* Does w watch cell number c? */
static inline bool kv_layer_watched(const kv_layer *l, int c,
                                    const kv_watch *w) {
  return !w->of || w->of == l->cell[c];
}

/* The `self` of the order's callbacks while some cells go through a block. */
typedef struct kv_look {
  kv_layer *layer;
  const int *cell; /* of each rider */
  kv_worker *worker;
  int block, step; /* the block being closed; tokens seen at its end */
  bool row;        /* it is a row of the prompt */
} kv_look;

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

/* Adds a lane's bytes to *sum, in a layer with a sliding window. Leading
 * entries that the next token cannot see do not count if their rows are as
 * recorded: no engine holds them until a compression. */
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

/* --- the order's calls --------------------------------------------------- */

/* A rider of cell c, and an order of riders that reports each cell's lanes to
 * k. k and rider must outlive the order. */
static kv_rider layer_rider(const kv_layer *l, int c, const kv_worker *worker) {
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

static kv_order layer_order(kv_look *k, int riders, const kv_rider *rider) {
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

static void layer_close_step(kv_layer *l, int c, int block, int step,
                             const kv_team *team) {
  kv_look k = {l, &c, &team->worker[0], block, step, false};
  kv_rider rider = layer_rider(l, c, k.worker);
  kv_order o = layer_order(&k, 1, &rider);
  kv_order_close(&o);
}

/* Opens a block or step of cell c, before any KV head. layer_close_step closes
 * it at `step` tokens seen, after all KV heads. */
static void layer_open_step(kv_layer *l, int c, int block,
                            const kv_team *team) {
  kv_look k = {
      .layer = l, .cell = &c, .worker = &team->worker[0], .block = block};
  kv_rider rider = layer_rider(l, c, k.worker);
  kv_order o = layer_order(&k, 1, &rider);
  kv_order_receive(&o);
}

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

/* A fault of its layouts fails the cell, unless the cell itself has failed. */
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

/* --- over KV heads ------------------------------------------------------ */

typedef struct work {
  kv_layer *layer;
  int cells;
  const int *cell; /* [cells] their numbers */
  int first, count;
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

/* --- exact rows, and rows computed ahead --------------------------------- */

/* Computes a tile's exact rows, then what each cell computes ahead from them.
 */
static void fill_tile(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  kv_look k = {.layer = l, .cell = w->cell, .worker = worker};
  kv_known known;
  bool sound = false;
  if (l->tile) {
    kv_tile_fill(l->tile, g, l->data, g, w->first, w->count,
                 &worker->truth->attend);
    kv_tile_row row = kv_tile_at(l->tile, g, w->first);
    known = (kv_known){.q = row.q, .s = row.s, .stride = l->tile->stride};
    sound = kv_tile_sound(l->tile, g);
  }
  for (int i = 0; i < w->cells; i++)
    worker->rider[i] = layer_rider(l, w->cell[i], worker);
  kv_order o = layer_order(&k, w->cells, worker->rider);
  kv_order_ahead(&o, g, w->first, w->count, sound ? &known : NULL);
}

/* Computes ahead up to `left` rows of cell[n], from t on, unless done. */
static void look_ahead(kv_layer *l, int n, const int *cell, int t, int left,
                       const kv_team *team) {
  if (l->steps < 2 || t < l->until) return;
  int rows = left < l->steps ? left : l->steps;
  l->until = t + rows;
  each_head(&(work){l, n, cell, t, rows}, team, fill_tile);
}

/* The exact row t, in *room; NULL: not needed, or a logit is not finite. */
static const kv_known *true_row(const kv_layer *l, int g, int t,
                                kv_worker *worker, kv_known *room) {
  if (!worker->truth) return NULL;
  kv_truth_fill(worker->truth, l->data, g, t, l->tile);
  *room = kv_truth_known(worker->truth);
  return worker->truth->finite ? room : NULL;
}

/* --- prompt ------------------------------------------------------------- */

static bool unwanted(const kv_team *team) { return team->stop && team->stop(); }

static void enter_block(const work *w, int g, kv_worker *worker) {
  kv_look k = {.layer = w->layer, .cell = w->cell, .worker = worker};
  kv_rider rider = layer_rider(w->layer, *w->cell, worker);
  kv_order o = layer_order(&k, 1, &rider);
  kv_order_prompt(&o, g, w->first, w->count);
}

void kv_layer_block(kv_layer *l, int c, int first, int count,
                    const kv_team *team) {
  int size = kv_cell_block(l->cell[c]), block = size ? first / size : 0;
  if (l->cell[c]->shape.chunk) l->backend->prompt(l->store[c], first + count);
  layer_open_step(l, c, block, team);
  each_head(&(work){l, 1, &c, first, count}, team, enter_block);
  layer_close_step(l, c, block, first + count, team);
}

/* A prompt in blocks: each observation covers what is stored and the block. */
static void prompt_in_blocks(kv_layer *l, int c, const kv_team *team) {
  int size = l->cell[c]->plan.needs.block, p = l->cell[c]->shape.prompt_len;
  for (int first = 0; first < p && !unwanted(team); first += size)
    kv_layer_block(l, c, first, first + size < p ? size : p - first, team);
}

static void attend_row(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  kv_known room;
  const kv_known *known = true_row(l, g, w->first, worker, &room);
  for (int i = 0; i < w->cells; i++) {
    kv_look k = {
        .layer = l, .cell = w->cell + i, .worker = worker, .row = true};
    kv_rider rider = layer_rider(l, w->cell[i], worker);
    kv_order o = layer_order(&k, 1, &rider);
    o.known = known;
    kv_order_row(&o, g, w->first);
  }
}

static void end_rows(const work *w, int g, kv_worker *worker) {
  for (int i = 0; i < w->cells; i++) {
    kv_look k = {.layer = w->layer, .cell = w->cell + i, .worker = worker};
    kv_rider rider = layer_rider(w->layer, w->cell[i], worker);
    kv_order o = layer_order(&k, 1, &rider);
    kv_order_rows_end(&o, g, w->first, w->count);
  }
}

static void close_row(kv_layer *l, int c, const kv_team *team) {
  kv_look k = {.layer = l, .cell = &c, .worker = &team->worker[0]};
  kv_rider rider = layer_rider(l, c, k.worker);
  kv_order o = layer_order(&k, 1, &rider);
  kv_order_row_close(&o);
}

/* Row t of cell[n], which read the prompt in chunks of one size. */
static void prompt_row(kv_layer *l, int n, const int *cell, int t,
                       const kv_team *team) {
  const kv_shape *s = &l->cell[*cell]->shape;
  int block = t / s->chunk, first = block * s->chunk;
  int end = first + s->chunk < s->prompt_len ? first + s->chunk : s->prompt_len;
  for (int i = 0; i < n && t == first; i++) {
    l->backend->prompt(l->store[cell[i]], end);
    layer_open_step(l, cell[i], block, team);
  }
  look_ahead(l, n, cell, t, end - t, team);
  each_head(&(work){l, n, cell, t, 1}, team, attend_row);
  if (t + 1 == end)
    each_head(&(work){l, n, cell, first, end - first}, team, end_rows);
  for (int i = 0; i < n; i++) {
    if (t + 1 == end)
      layer_close_step(l, cell[i], block, end, team);
    else
      close_row(l, cell[i], team);
  }
}

void kv_layer_prompt_row(kv_layer *l, int c, int t, const kv_team *team) {
  prompt_row(l, 1, &c, t, team);
}

/* Reads the prompt in chunks of that size. Its cells share all exact rows. */
static void prompt_in_chunks(kv_layer *l, int size, const kv_team *team) {
  int p = l->cell[0]->shape.prompt_len, n = 0;
  int first = size < p ? size : p;
  for (int i = 0; i < l->active; i++)
    if (l->cell[l->at[i]]->shape.chunk == size) l->chunked[n++] = l->at[i];
  for (int i = 0; i < n; i++) kv_layer_block(l, l->chunked[i], 0, first, team);
  l->until = first;
  for (int t = first; t < p && !unwanted(team); t++)
    prompt_row(l, n, l->chunked, t, team);
}

/* Does an active cell before the i-th use the same chunk size? */
static bool read_before(const kv_layer *l, int i) {
  for (int j = 0; j < i; j++)
    if (l->cell[l->at[j]]->shape.chunk == l->cell[l->at[i]]->shape.chunk)
      return true;
  return false;
}

/* A prompt that enters at once has the same rows for every method, so its
 * observation is computed in one pass for all cells. Lanes with re-indexed
 * positions see other keys and are computed alone. */
static void enter_prompt(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  kv_look k = {.layer = l, .cell = worker->who, .worker = worker};
  int n = 0;
  for (int i = 0; i < l->active; i++) {
    if (kv_cell_block(l->cell[l->at[i]])) continue;
    worker->who[n] = l->at[i];
    worker->rider[n++] = layer_rider(l, l->at[i], worker);
  }
  kv_order o = layer_order(&k, n, worker->rider);
  kv_order_prompt(&o, g, 0, l->cell[0]->shape.prompt_len);
}

void kv_layer_prompt(kv_layer *l, const kv_team *team) {
  for (int i = 0; i < l->active; i++)
    if (!kv_cell_block(l->cell[l->at[i]]))
      layer_open_step(l, l->at[i], 0, team);
  each_head(&(work){.layer = l}, team, enter_prompt);
  for (int i = 0; i < l->active && !unwanted(team); i++) {
    int c = l->at[i], chunk = l->cell[c]->shape.chunk;
    if (chunk && read_before(l, i)) continue;
    if (chunk)
      prompt_in_chunks(l, chunk, team);
    else if (l->cell[c]->plan.needs.block)
      prompt_in_blocks(l, c, team);
    else
      layer_close_step(l, c, 0, l->cell[c]->shape.prompt_len, team);
  }
}

/* --- decode ------------------------------------------------------------- */

static int block_of(const kv_cell *cell, int t) {
  return cell->blocks + t - cell->shape.prompt_len;
}

static void decode(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  int t = w->first;
  kv_known room;
  const kv_known *known = true_row(l, g, t, worker, &room);
  for (int i = 0; i < l->active; i++) {
    int c = l->at[i];
    kv_look k = {l, &c, worker, block_of(l->cell[c], t), t + 1, false};
    kv_rider rider = layer_rider(l, c, worker);
    kv_order o = layer_order(&k, 1, &rider);
    o.known = known;
    kv_order_decode(&o, g, t);
  }
}

/* Decode steps from t to the next question, or to the end. */
static int steps_left(const kv_cell *c, int t) {
  for (int i = 0; i < c->turns; i++)
    if (c->turn[i].first > t) return c->turn[i].first - t;
  return c->shape.n_tokens - t;
}

void kv_layer_step(kv_layer *l, int t, const kv_team *team) {
  look_ahead(l, l->active, l->at, t, steps_left(l->cell[0], t), team);
  for (int i = 0; i < l->active; i++)
    layer_open_step(l, l->at[i], block_of(l->cell[l->at[i]], t), team);
  each_head(&(work){l, l->active, l->at, t, 1}, team, decode);
  for (int i = 0; i < l->active; i++)
    layer_close_step(l, l->at[i], block_of(l->cell[l->at[i]], t), t + 1, team);
}

/* --- later prompts ------------------------------------------------------ */

/* Enters a question of one cell, whose lanes differ from all others'. */
static void ask(kv_layer *l, int c, const kv_asking *q, const kv_team *team) {
  const kv_cell *cell = l->cell[c];
  int size = cell->plan.needs.block, end = q->first + q->count;
  l->backend->prompt(l->store[c], end);
  for (int t = q->first, n; t < end && !unwanted(team); t += n) {
    n = size && t + size < end ? size : end - t;
    int block = block_of(cell, t + n - 1);
    layer_open_step(l, c, block, team);
    each_head(&(work){l, 1, &c, t, n}, team, enter_block);
    layer_close_step(l, c, block, t + n, team);
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
