/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer in flight: what the engine does between a block's arrival and its
 * account.
 */
#include "sim/layer.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

struct kv_layer {
  const kv_backend *backend;
  int cells;
  kv_cell *const *cell;  /* [cells] */
  kv_store **store;      /* [cells] */
  kv_bytes **before;     /* [cells][lanes] of the block in progress */
  const kv_watch *watch; /* or NULL */
  int index;             /* among the recorded layers */
  const kv_layer_data *data;
};

/* --- life --------------------------------------------------------------- */

void kv_layer_close(kv_layer *l) {
  if (!l) return;
  for (int c = 0; l->store && c < l->cells; c++) l->backend->close(l->store[c]);
  for (int c = 0; l->before && c < l->cells; c++) free(l->before[c]);
  free(l->store);
  free(l->before);
  free(l);
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
                  .store = kv_zalloc(n, sizeof *l->store),
                  .before = kv_zalloc(n, sizeof *l->before)};
  kv_rc rc = KV_OK;
  if (!l->store || !l->before)
    rc = kv_no_memory(e, "a layer", n * sizeof *l->store);
  for (int c = 0; !rc && c < cells; c++) {
    rc = backend->open(&cell[c]->plan, &l->store[c], e);
    if (rc) break;
    size_t lanes = (size_t)backend->lanes(l->store[c]);
    l->before[c] = kv_zalloc(lanes, sizeof **l->before);
    if (!l->before[c])
      rc = kv_no_memory(e, "a layer", lanes * sizeof(kv_bytes));
  }
  if (rc)
    kv_layer_close(l);
  else
    *out = l;
  return rc;
}

/* --- who watches -------------------------------------------------------- */

/* The first from w on that is told of cell c. */
static const kv_watch *told(const kv_layer *l, int c, const kv_watch *w) {
  while (w && w->of && w->of != l->cell[c]) w = w->next;
  return w;
}

#define EACH_WATCH(l, c, w)                                                    \
  const kv_watch *w = told(l, c, (l)->watch);                                  \
  w;                                                                           \
  w = told(l, c, w->next)

static void tell_settled(const kv_layer *l, int c, int step,
                         const kv_lane *lane) {
  for (EACH_WATCH(l, c, w))
    if (w->settled) w->settled(w->self, l->data->layer, step, lane);
}

static void tell_seen(const kv_layer *l, int c, int step, const kv_seen *seen) {
  for (EACH_WATCH(l, c, w))
    if (w->seen) w->seen(w->self, l->data->layer, step, seen);
}

static void tell_finished(const kv_layer *l, int c, const kv_lane *lane) {
  for (EACH_WATCH(l, c, w))
    if (w->finished) w->finished(w->self, l->data->layer, lane);
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

/* Lanes of cell c that read KV head g. */
static int lanes_of(const kv_layer *l, int c, int g, int *first) {
  int per_head = l->backend->lanes(l->store[c]) / l->cell[c]->shape.n_kv_heads;
  *first = g * per_head;
  return per_head;
}

/* --- account ------------------------------------------------------------ */

static void measure_before(kv_layer *l, int c, int lane) {
  l->before[c][lane] = (kv_bytes){0};
  kv_lane_bytes(l->backend->lane(l->store[c], lane), &l->before[c][lane]);
}

/* Settles the layer as a whole and closes the step of one cell. */
static void close_step(kv_layer *l, int c, int block, int step,
                       kv_worker *worker) {
  kv_store *s = l->store[c];
  kv_cell *cell = l->cell[c];
  kv_bytes before = {0}, settled = {0};
  kv_cost_verbs verbs = {0};
  bool due = kv_settling_due(&cell->plan.needs, &cell->shape, step);
  l->backend->settle_layer(s, worker->scratch);
  for (int i = 0; i < l->backend->lanes(s); i++) {
    const kv_lane *lane = l->backend->lane(s, i);
    kv_cost_verbs v = kv_cost_lane_verbs(lane);
    kv_bytes_add(&before, &l->before[c][i]);
    if (due) kv_lane_bytes(lane, &settled);
    verbs.records += v.records;
    verbs.moved += v.moved;
    if (due) tell_settled(l, c, step, lane);
  }
  kv_cost_held(cell->cost, block, &before, due ? &settled : &before);
  kv_cost_moved(cell->cost, &verbs);
  l->backend->end_step(s);
}

/* --- entering and settling, the same for every walk --------------------- */

static void enter(kv_layer *l, int c, int g, int first, int count,
                  kv_worker *worker) {
  int from, n = lanes_of(l, c, g, &from);
  for (int i = from; i < from + n; i++)
    l->backend->append(l->store[c], i, first, count, worker->scratch);
}

static void settle_lane(kv_layer *l, int c, int lane, kv_worker *worker) {
  measure_before(l, c, lane);
  l->backend->settle(l->store[c], lane, worker->scratch);
}

static void settle(kv_layer *l, int c, int g, kv_worker *worker) {
  int from, n = lanes_of(l, c, g, &from);
  for (int i = from; i < from + n; i++) settle_lane(l, c, i, worker);
}

/* --- prompt ------------------------------------------------------------- */

static void enter_block(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  enter(l, w->cell, g, w->first, w->count, worker);
  l->backend->evidence(&l->store[w->cell], 1, g, w->first, w->count,
                       worker->scratch);
  settle(l, w->cell, g, worker);
}

void kv_layer_block(kv_layer *l, int c, int first, int count,
                    const kv_team *team) {
  int size = l->cell[c]->plan.needs.block;
  each_head(&(work){l, c, first, count}, team, enter_block);
  close_step(l, c, size ? first / size : 0, first + count, &team->worker[0]);
}

/* A prompt in pieces: each attends what is stored and itself. */
static void prompt_in_blocks(kv_layer *l, int c, const kv_team *team) {
  int size = l->cell[c]->plan.needs.block, p = l->cell[c]->shape.prompt_len;
  for (int first = 0; first < p; first += size)
    kv_layer_block(l, c, first, first + size < p ? size : p - first, team);
}

/* The whole prompt at once is the same rows for every method: its evidence
 * is computed in one pass for all of them. Re-indexed lanes see other keys
 * and go alone. */
static void enter_prompt(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  int shared = 0, p = l->cell[0]->shape.prompt_len;
  for (int c = 0; c < l->cells; c++) {
    const kv_needs *need = &l->cell[c]->plan.needs;
    if (need->block) continue;
    enter(l, c, g, 0, p, worker);
    if (need->reindex)
      l->backend->evidence(&l->store[c], 1, g, 0, p, worker->scratch);
    else
      worker->store[shared++] = l->store[c];
  }
  l->backend->evidence(worker->store, shared, g, 0, p, worker->scratch);
  for (int c = 0; c < l->cells; c++)
    if (!l->cell[c]->plan.needs.block) settle(l, c, g, worker);
}

void kv_layer_prompt(kv_layer *l, const kv_team *team) {
  each_head(&(work){l, -1, 0, 0}, team, enter_prompt);
  for (int c = 0; c < l->cells; c++) {
    if (l->cell[c]->plan.needs.block)
      prompt_in_blocks(l, c, team);
    else
      close_step(l, c, 0, l->cell[c]->shape.prompt_len, &team->worker[0]);
  }
}

/* --- decode ------------------------------------------------------------- */

static void decode_cell(kv_layer *l, int c, int g, int t, kv_worker *worker) {
  int first, n = lanes_of(l, c, g, &first);
  kv_store *s = l->store[c];
  kv_cell *cell = l->cell[c];
  int block = cell->blocks + t - cell->shape.prompt_len;
  for (int i = first; i < first + n; i++) {
    kv_known known = {0};
    bool true_row = worker->truth && worker->truth->finite;
    l->backend->append(s, i, t, 1, worker->scratch);
    if (true_row) known = kv_truth_known(worker->truth);
    l->backend->attend(s, i, t, true_row ? &known : NULL, worker->scratch);
    kv_seen seen = l->backend->seen(s, i, worker->scratch);
    kv_cost_row row = kv_cost_view(&seen, worker->mark);
    kv_cost_read(cell->cost, block, &row);
    if (cell->fidelity && true_row)
      kv_fidelity_row(cell->fidelity, l->index, &seen, worker->truth);
    tell_seen(l, c, t + 1, &seen);
    settle_lane(l, c, i, worker);
  }
}

static void decode(const work *w, int g, kv_worker *worker) {
  kv_layer *l = w->layer;
  if (worker->truth) kv_truth_fill(worker->truth, l->data, g, w->first);
  for (int c = 0; c < l->cells; c++) {
    double start = omp_get_wtime();
    decode_cell(l, c, g, w->first, worker);
    worker->seconds[c] += omp_get_wtime() - start;
  }
}

void kv_layer_step(kv_layer *l, int t, const kv_team *team) {
  each_head(&(work){l, -1, t, 1}, team, decode);
  for (int c = 0; c < l->cells; c++) {
    const kv_cell *cell = l->cell[c];
    close_step(l, c, cell->blocks + t - cell->shape.prompt_len, t + 1,
               &team->worker[0]);
  }
}

const kv_lane *kv_layer_lane(const kv_layer *l, int cell, int lane) {
  return l->backend->lane(l->store[cell], lane);
}

/* --- begin and end ------------------------------------------------------ */

void kv_layer_begin(kv_layer *l, int index) {
  l->index = index;
  l->data = &l->cell[0]->trace->layer[index].data;
  for (int c = 0; c < l->cells; c++) l->backend->begin(l->store[c], l->data);
}

kv_rc kv_layer_end(kv_layer *l, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int c = 0; c < l->cells; c++) {
    kv_cell *cell = l->cell[c];
    kv_store *s = l->store[c];
    cell->digest[l->index] = l->backend->finish(s);
    const kv_err *fault = l->backend->fault(s);
    for (int i = 0; i < l->backend->lanes(s); i++) {
      const kv_lane *lane = l->backend->lane(s, i);
      kv_cost_kept(cell->cost, l->index, i, lane->n);
      tell_finished(l, c, lane);
    }
    if (!fault) continue;
    if (fault->rc == KV_RESOURCE)
      rc = kv_fail(e, KV_RESOURCE, "%s", fault->text);
#pragma omp critical(kv_fault)
    if (cell->result.status != KV_CELL_FAILED || l->index < cell->fault_at) {
      cell->result.status = KV_CELL_FAILED;
      cell->fault_at = l->index; /* the lowest layer speaks, on any team */
      memcpy(cell->result.reason, fault->text, sizeof fault->text);
    }
  }
  return rc;
}
