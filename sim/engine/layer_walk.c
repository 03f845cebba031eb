/* SPDX-License-Identifier: Apache-2.0
 *
 * The prompt and the steps of a layer in flight: which cells share the engine's
 * calls (sim/engine/order.h), and what is computed for all of them.
 */
#include "sim/engine/layer_part.h"

#include <omp.h>

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

/* --- exact rows, and rows to come ---------------------------------------- */

/* The exact rows of a tile of steps, then what each cell makes of them. */
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
    worker->rider[i] = kv_layer_rider(l, w->cell[i], worker);
  kv_order o = kv_layer_order(&k, w->cells, worker->rider);
  kv_order_ahead(&o, g, w->first, w->count, sound ? &known : NULL);
}

/* Computes what can be of the `left` rows from t on of cell[n], unless it is
 * there. */
static void look_ahead(kv_layer *l, int n, const int *cell, int t, int left,
                       const kv_team *team) {
  if (l->steps < 2 || t < l->until) return;
  int rows = left < l->steps ? left : l->steps;
  l->until = t + rows;
  each_head(&(work){l, n, cell, t, rows}, team, fill_tile);
}

/* Row t, exactly, in *room; NULL where nobody asks for it or a logit is not
 * finite. */
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
  kv_rider rider = kv_layer_rider(w->layer, *w->cell, worker);
  kv_order o = kv_layer_order(&k, 1, &rider);
  kv_order_prompt(&o, g, w->first, w->count);
}

void kv_layer_block(kv_layer *l, int c, int first, int count,
                    const kv_team *team) {
  int size = kv_cell_block(l->cell[c]), block = size ? first / size : 0;
  if (l->cell[c]->shape.chunk) l->backend->prompt(l->store[c], first + count);
  kv_layer_open_step(l, c, block, team);
  each_head(&(work){l, 1, &c, first, count}, team, enter_block);
  kv_layer_close_step(l, c, block, first + count, team);
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
  kv_known room;
  const kv_known *known = true_row(l, g, w->first, worker, &room);
  for (int i = 0; i < w->cells; i++) {
    kv_look k = {
        .layer = l, .cell = w->cell + i, .worker = worker, .row = true};
    kv_rider rider = kv_layer_rider(l, w->cell[i], worker);
    kv_order o = kv_layer_order(&k, 1, &rider);
    o.known = known;
    kv_order_row(&o, g, w->first);
  }
}

static void end_rows(const work *w, int g, kv_worker *worker) {
  for (int i = 0; i < w->cells; i++) {
    kv_look k = {.layer = w->layer, .cell = w->cell + i, .worker = worker};
    kv_rider rider = kv_layer_rider(w->layer, w->cell[i], worker);
    kv_order o = kv_layer_order(&k, 1, &rider);
    kv_order_rows_end(&o, g, w->first, w->count);
  }
}

static void close_row(kv_layer *l, int c, const kv_team *team) {
  kv_look k = {.layer = l, .cell = &c, .worker = &team->worker[0]};
  kv_rider rider = kv_layer_rider(l, c, k.worker);
  kv_order o = kv_layer_order(&k, 1, &rider);
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
    kv_layer_open_step(l, cell[i], block, team);
  }
  look_ahead(l, n, cell, t, end - t, team);
  each_head(&(work){l, n, cell, t, 1}, team, attend_row);
  if (t + 1 == end)
    each_head(&(work){l, n, cell, first, end - first}, team, end_rows);
  for (int i = 0; i < n; i++) {
    if (t + 1 == end)
      kv_layer_close_step(l, cell[i], block, end, team);
    else
      close_row(l, cell[i], team);
  }
}

void kv_layer_prompt_row(kv_layer *l, int c, int t, const kv_team *team) {
  prompt_row(l, 1, &c, t, team);
}

/* A prompt that is read in chunks of that size: the exact rows are the same for
 * every cell that does. */
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

/* Has an active cell before the i-th the same chunks? */
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
    worker->rider[n++] = kv_layer_rider(l, l->at[i], worker);
  }
  kv_order o = kv_layer_order(&k, n, worker->rider);
  kv_order_prompt(&o, g, 0, l->cell[0]->shape.prompt_len);
}

void kv_layer_prompt(kv_layer *l, const kv_team *team) {
  for (int i = 0; i < l->active; i++)
    if (!kv_cell_block(l->cell[l->at[i]]))
      kv_layer_open_step(l, l->at[i], 0, team);
  each_head(&(work){.layer = l}, team, enter_prompt);
  for (int i = 0; i < l->active && !unwanted(team); i++) {
    int c = l->at[i], chunk = l->cell[c]->shape.chunk;
    if (chunk && read_before(l, i)) continue;
    if (chunk)
      prompt_in_chunks(l, chunk, team);
    else if (l->cell[c]->plan.needs.block)
      prompt_in_blocks(l, c, team);
    else
      kv_layer_close_step(l, c, 0, l->cell[c]->shape.prompt_len, team);
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
    kv_rider rider = kv_layer_rider(l, c, worker);
    kv_order o = kv_layer_order(&k, 1, &rider);
    o.known = known;
    kv_order_decode(&o, g, t);
  }
}

/* Decode steps from t on until the next question, or the end. */
static int steps_left(const kv_cell *c, int t) {
  for (int i = 0; i < c->turns; i++)
    if (c->turn[i].first > t) return c->turn[i].first - t;
  return c->shape.n_tokens - t;
}

void kv_layer_step(kv_layer *l, int t, const kv_team *team) {
  look_ahead(l, l->active, l->at, t, steps_left(l->cell[0], t), team);
  for (int i = 0; i < l->active; i++)
    kv_layer_open_step(l, l->at[i], block_of(l->cell[l->at[i]], t), team);
  each_head(&(work){l, l->active, l->at, t, 1}, team, decode);
  for (int i = 0; i < l->active; i++)
    kv_layer_close_step(l, l->at[i], block_of(l->cell[l->at[i]], t), t + 1,
                        team);
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
    kv_layer_open_step(l, c, block, team);
    each_head(&(work){l, 1, &c, t, n}, team, enter_block);
    kv_layer_close_step(l, c, block, t + n, team);
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
