/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over a trace: its memory, the layers kept from an earlier pass, the
 * finished rows, and the two walks, which decide which worker replays which
 * layer, in which order, and which cells go together. A kv_flight belongs to
 * one thread, which may share its layer's KV heads among all threads. Data that
 * several threads write is atomic or written in a critical section. Times are
 * seconds of omp_get_wtime.
 */
#include "sim/replay/engine/replay.h"

#include "ref/backend/ahead.h"
#include "ref/ground/threads.h"
#include "sim/replay/engine/groups.h"
#include "sim/replay/engine/layer.h"
#include "sim/replay/engine/order.h"
#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One group of cells on one layer: what one worker is replaying. */
typedef struct kv_flight {
  kv_layer *layer;
  int n;       /* cells of the group, by index in kv_pass.cell */
  int *cell;   /* [wanting] their indexes, then those of the other cells that
                  still need the layer */
  double *own; /* [cells] scratch: seconds of each cell of the group */
  double began, prompted; /* when the group began, and its prompt ended */
  bool weighed;           /* its first decode steps were timed, and the rest
                             predicted from them */
  int wanting;            /* cells that needed the layer when it began */
  double seen;      /* units of progress (tokens) that the layer has made */
  int64_t reported; /* how many of them were reported to how->tick */
} kv_flight;

typedef struct kv_pass {
  const kv_trace *trace;
  kv_cell **all; /* [n_all] cells that run */
  int n_all;
  bool *there;    /* [n_all][layers] does the cell already have that layer's
                     results, from a database? */
  kv_cell **cell; /* [cells] those that still miss a layer */
  int *at;        /* [cells] their indexes in `all` */
  int cells;
  bool down; /* layers of some cell publish messages for those below them, so
                that only one may be in flight */
  const kv_replay_how *how;
  kv_worker *worker; /* [workers] */
  int workers;
  kv_flight *flight; /* [in_flight] */
  int in_flight;
  int tile; /* decode steps of a tile; 1: row by row */
  kv_groups groups;
  _Atomic bool ended; /* stopped, or there is a fault */
  _Atomic bool stopped;
  kv_err fault; /* why there are no rows: the trace is bad, the device was lost,
                   memory ran out; rc 0: no fault */
} kv_pass;

kv_rc kv_worker_open(const kv_backend *backend, const kv_shape *shape,
                     const kv_plan *const *plan, int cells, kv_worker *w,
                     kv_err *e) {
  size_t n = (size_t)cells;
  w->mark = kv_zalloc(1, kv_cost_mark_size(shape));
  w->seconds = kv_zalloc(n, sizeof *w->seconds);
  w->store = kv_zalloc(n, sizeof *w->store);
  w->who = kv_zalloc(n, sizeof *w->who);
  w->rider = kv_zalloc(n, sizeof *w->rider);
  if (!w->mark || !w->seconds || !w->store || !w->who || !w->rider)
    return kv_no_memory(e, "a worker", kv_cost_mark_size(shape));
  return backend->scratch_open(shape, plan, cells, &w->scratch, e);
}

void kv_worker_close(const kv_backend *backend, kv_worker *w) {
  backend->scratch_close(w->scratch);
  kv_truth_close(w->truth);
  free(w->mark);
  free(w->seconds);
  free(w->store);
  free(w->who);
  free(w->rider);
}

/* --- the pass as a whole ------------------------------------------------ */

static void end(kv_pass *p, const kv_err *why) {
#pragma omp critical(kv_pass)
  if (why && !p->fault.rc) p->fault = *why;
  p->ended = true;
}

static bool go_on(kv_pass *p) {
  if (!p->ended && p->how->stop && p->how->stop()) {
    p->stopped = true;
    end(p, NULL);
  }
  return !p->ended;
}

static void done(const kv_pass *p, int64_t units) {
  if (p->how->tick && units) p->how->tick(p->how->self, units);
}

/* Advances progress. A group's token counts by the group's share of the cells
 * that needed the layer. */
static void advance(const kv_pass *p, kv_flight *f, int tokens) {
  int64_t all = p->cell[0]->shape.n_tokens, now;
  f->seen += (double)tokens * f->n / f->wanting;
  now = f->seen < (double)all ? (int64_t)f->seen : all;
  done(p, now - f->reported);
  f->reported = now;
}

/* --- one layer, one group ----------------------------------------------- */

/* Checks a layer's numbers if they come from a file, not from memory. */
static kv_rc scan(const kv_trace *t, int index, kv_err *e) {
  const kv_trace_reads *r = t->reads;
  return r && r->scan_layer ? r->scan_layer(t, index, e) : KV_OK;
}

static kv_rc damaged(const kv_trace *t, kv_err *e) {
  return t->reads && t->reads->damaged ? t->reads->damaged(t, e) : KV_OK;
}

static void release(const kv_trace *t, int index) {
  if (t->reads && t->reads->release_layer) t->reads->release_layer(t, index);
}

static void begin_layer(kv_pass *p, kv_flight *f, int index,
                        const kv_team *team) {
  kv_err e = {0};
  if (scan(p->trace, index, &e)) {
    end(p, &e);
    return;
  }
  kv_layer_begin(f->layer, index);
  kv_layer_prompt(f->layer, team);
}

/* Checks the numbers of a failed layer again. They were finite when first read.
 * If they no longer are, somebody rewrote the file through a mapping, which may
 * not change its modification time. */
static kv_rc look_again(const kv_pass *p, int index, kv_err *e) {
  kv_err why = {0};
  if (!scan(p->trace, index, &why)) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s; the file was rewritten while it was read, so write it "
                 "again and repeat the command",
                 why.text);
}

/* Ends the layer. False: its results cannot be used. */
static bool end_layer(kv_pass *p, kv_flight *f, int index) {
  kv_err e = {0};
  kv_rc rc = kv_layer_end(f->layer, &e);
  if (!rc) rc = damaged(p->trace, &e);
  if (!rc && kv_layer_failed(f->layer)) rc = look_again(p, index, &e);
  if (rc) end(p, &e);
  release(p->trace, index);
  return !rc;
}

/* Collects the seconds that the team spent on each cell since the last call. */
static void collect(const kv_pass *p, const kv_flight *f, int index,
                    const kv_team *team) {
  for (int i = 0; i < f->n; i++)
    for (int w = 0; w < team->workers; w++) {
      double *spent = &team->worker[w].seconds[f->cell[i]];
      p->cell[f->cell[i]]->seconds[index] += *spent;
      *spent = 0;
    }
}

/* --- groups ------------------------------------------------------------- */

/* Lists the cells that still need the layer; returns how many. */
static int list_wanting(const kv_pass *p, kv_flight *f, int index) {
  int n = 0, layers = p->trace->n_layers;
  for (int c = 0; c < p->cells; c++)
    if (!p->there[p->at[c] * layers + index]) f->cell[n++] = c;
  return n;
}

static int pick(kv_pass *p, int n, const int *cell) {
  int picked;
#pragma omp critical(kv_groups)
  picked = kv_groups_pick(&p->groups, n, cell);
  return picked;
}

static void learn(kv_pass *p, const kv_flight *f, double took) {
#pragma omp critical(kv_groups)
  kv_groups_learn(&p->groups, took, f->n, f->cell, f->own);
}

/* Removes the last cells from the group and discards what this layer gave them.
 */
static void shed(const kv_pass *p, kv_flight *f, int index, int n,
                 const kv_team *team) {
  for (int i = n; i < f->n; i++) {
    kv_cell *c = p->cell[f->cell[i]];
    for (int w = 0; w < team->workers; w++)
      team->worker[w].seconds[f->cell[i]] = 0;
    kv_cell_forget(c, index);
  }
  f->n = n;
  kv_layer_only(f->layer, n, f->cell);
}

/* Predicts how long the group will take, once a few steps were measured; a step
 * counts in proportion to its row's length. If that is too long, puts off some
 * cells, unless more is done than is left. Puts off none if layers publish
 * messages: a repeated layer would read its own. Called after token t. */
static void weigh(kv_pass *p, kv_flight *f, int index, int t,
                  const kv_team *team) {
  const kv_shape *s = &p->cell[0]->shape;
  double steps = omp_get_wtime() - f->prompted, first = s->prompt_len;
  if (p->down || f->weighed || steps < p->how->keep->most / 45) return;
  f->weighed = true;
  double rest = ((double)s->n_tokens * s->n_tokens - first * first) /
                ((t + 1.0) * (t + 1.0) - first * first);
  for (int i = 0; i < f->n; i++) {
    double sum = 0;
    for (int w = 0; w < team->workers; w++)
      sum += team->worker[w].seconds[f->cell[i]];
    sum = p->cell[f->cell[i]]->seconds[index] + sum * rest;
    f->own[i] = sum / team->workers;
  }
  learn(p, f, f->prompted - f->began + steps * rest);
  int n = pick(p, f->n, f->cell);
  double spent = f->prompted - f->began + steps;
  if (n < f->n && steps * (rest - 1) > spent) shed(p, f, index, n, team);
}

static void keep_group(kv_pass *p, kv_flight *f, int index,
                       const kv_team *team) {
  const kv_replay_keeper *keep = p->how->keep;
  double took = omp_get_wtime() - f->began;
  for (int i = 0; i < f->n; i++)
    f->own[i] = p->cell[f->cell[i]]->seconds[index] / team->workers;
  learn(p, f, took);
  if (took > keep->most * 4 / 3)
    keep->slow(keep->self, p->cell[f->cell[0]], f->n, took);
  for (int i = 0; i < f->n; i++) f->cell[i] = p->at[f->cell[i]];
  keep->ended(keep->self, f->n, f->cell, index, took);
}

/* Replays the layer for the first f->n of the cells that need it. */
static void walk_group(kv_pass *p, kv_flight *f, int index,
                       const kv_team *team) {
  const kv_shape *s = &p->cell[0]->shape;
  int t = s->prompt_len;
  f->began = omp_get_wtime();
  f->weighed = false;
  kv_layer_only(f->layer, f->n, f->cell);
  begin_layer(p, f, index, team);
  if (!go_on(p)) return;
  advance(p, f, s->prompt_len);
  collect(p, f, index, team);
  f->prompted = omp_get_wtime();
  while (t < s->n_tokens && go_on(p)) {
    int n = kv_layer_advance(f->layer, t, team);
    t += n;
    advance(p, f, n);
    if (p->how->keep) weigh(p, f, index, t - 1, team);
  }
  if (t < s->n_tokens || !end_layer(p, f, index)) return;
  collect(p, f, index, team);
  for (int i = 0; i < f->n; i++)
    p->there[p->at[f->cell[i]] * p->trace->n_layers + index] = true;
  if (p->how->keep) keep_group(p, f, index, team);
}

static void walk_layer(kv_pass *p, kv_flight *f, int index,
                       const kv_team *team) {
  int n = list_wanting(p, f, index);
  f->wanting = n;
  f->seen = 0;
  f->reported = 0;
  while (n > 0 && go_on(p)) {
    f->n = pick(p, n, f->cell);
    walk_group(p, f, index, team);
    if (!p->ended) n = list_wanting(p, f, index);
  }
  if (n == 0) done(p, p->cell[0]->shape.n_tokens - f->reported);
}

/* --- the trace ---------------------------------------------------------- */

/* Layer by layer. If there are more threads than layers, all threads share one
 * layer; otherwise each has its own. */
static void walk_layers(kv_pass *p) {
  int layers = p->trace->n_layers;
  if (p->in_flight == 1) {
    kv_team team = {p->worker, p->workers, p->how->stop};
    for (int i = 0; i < layers; i++) walk_layer(p, &p->flight[0], i, &team);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->workers)
  for (int i = 0; i < layers; i++) {
    int me = omp_get_thread_num();
    kv_team team = {&p->worker[me], 1, p->how->stop};
    kv_float_ground();
    walk_layer(p, &p->flight[me], i, &team);
  }
}

/* Step by step: all layers are in flight, each with all cells. */
static void walk_steps(kv_pass *p) {
  const kv_shape *s = &p->cell[0]->shape;
  kv_team team = {p->worker, p->workers, p->how->stop};
  for (int i = 0; i < p->in_flight && go_on(p); i++) {
    p->flight[i].n = list_wanting(p, &p->flight[i], i);
    begin_layer(p, &p->flight[i], i, &team);
    done(p, s->prompt_len);
  }
  for (int t = s->prompt_len, n = 1; t < s->n_tokens && go_on(p); t += n) {
    for (int i = 0; i < p->in_flight; i++)
      n = kv_layer_advance(p->flight[i].layer, t, &team);
    done(p, (int64_t)n * p->in_flight);
  }
  for (int i = 0; i < p->in_flight && !p->ended; i++) {
    end_layer(p, &p->flight[i], i);
    collect(p, &p->flight[i], i, &team);
  }
}

/* Replays the whole trace, step by step if how->by_steps, else layer by layer.
 * Sets p->ended if it could not finish, with p->stopped or p->fault. Cells that
 * fail alone record it themselves. */
static void pass_walk(kv_pass *p) {
  if (p->how->by_steps)
    walk_steps(p);
  else
    walk_layers(p);
}

/* --- memory ------------------------------------------------------------- */

static kv_rc open_worker(const kv_pass *p, const kv_plan *const *plan,
                         int n_top, const int *top, kv_worker *w, kv_err *e) {
  const kv_shape *shape = &p->cell[0]->shape;
  kv_rc rc = kv_worker_open(p->how->backend, shape, plan, p->cells, w, e);
  if (!rc && p->how->fidelity)
    rc = kv_truth_open(shape, p->how->kernels, p->tile, n_top, top, &w->truth,
                       e);
  return rc;
}

/* Collects the k of recall_budget of all cells, for every layer if they differ.
 */
static int gather_tops(const kv_pass *p, int *top) {
  int n = 0;
  for (int c = 0; c < p->cells; c++) {
    int layers = p->cell[c]->plan.layer ? p->trace->n_layers : 1;
    for (int i = 0; i < layers; i++) {
      int k = kv_cell_entries(p->cell[c], i);
      top[n++] = k > 0 ? k : 1;
    }
  }
  return n;
}

static kv_rc open_workers(kv_pass *p, kv_err *e) {
  const kv_plan **plan = kv_zalloc((size_t)p->cells, sizeof *plan);
  size_t most = (size_t)p->cells * (size_t)p->trace->n_layers;
  int *top = kv_zalloc(most, sizeof *top), n_top = 0;
  p->worker = kv_zalloc((size_t)p->workers, sizeof *p->worker);
  kv_rc rc = KV_OK;
  if (!plan || !top || !p->worker)
    rc = kv_no_memory(e, "workers", (size_t)p->cells * sizeof *plan);
  for (int c = 0; !rc && c < p->cells; c++) plan[c] = &p->cell[c]->plan;
  if (!rc) n_top = gather_tops(p, top);
  for (int i = 0; !rc && i < p->workers; i++)
    rc = open_worker(p, plan, n_top, top, &p->worker[i], e);
  free(plan);
  free(top);
  return rc;
}

static kv_rc open_flight(const kv_pass *p, kv_flight *f, kv_err *e) {
  size_t n = (size_t)p->cells;
  f->cell = kv_zalloc(n, sizeof *f->cell);
  f->own = kv_zalloc(n, sizeof *f->own);
  if (!f->cell || !f->own)
    return kv_no_memory(e, "a layer", n * sizeof *f->own);
  kv_rc rc = kv_layer_open(p->how->backend, p->cell, p->cells, p->how->watch,
                           &f->layer, e);
  if (!rc && p->tile > 1)
    rc = kv_layer_take_tile(f->layer, p->how->fidelity ? p->how->kernels : NULL,
                            p->tile, e);
  return rc;
}

static kv_rc open_flights(kv_pass *p, kv_err *e) {
  size_t n = (size_t)p->in_flight;
  p->flight = kv_zalloc(n, sizeof *p->flight);
  if (!p->flight) return kv_no_memory(e, "layers", n * sizeof *p->flight);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < p->in_flight; i++)
    rc = open_flight(p, &p->flight[i], e);
  return rc;
}

static void close_pass(kv_pass *p) {
  for (int i = 0; p->flight && i < p->in_flight; i++) {
    kv_layer_close(p->flight[i].layer);
    free(p->flight[i].cell);
    free(p->flight[i].own);
  }
  for (int i = 0; p->worker && i < p->workers; i++)
    kv_worker_close(p->how->backend, &p->worker[i]);
  kv_groups_close(&p->groups);
  free(p->flight);
  free(p->worker);
  free(p->cell);
  free(p->at);
  free(p->there);
  free(p->all);
}

/* --- the pass ----------------------------------------------------------- */

int64_t kv_replay_units(const kv_trace *t, int prompt_len) {
  (void)prompt_len; /* a prompt token and a step count alike */
  return (int64_t)t->n_layers * t->shape.n_tokens;
}

bool kv_replay_parallel(const kv_replay_how *how) {
  const kv_watch *w = how->watch;
  while (w && w->concurrent) w = w->next;
  return w == NULL && how->backend->threads;
}

/* Writes backend, kernel set and threads into the cell's row. */
static void introduce(const kv_pass *p, kv_cell *c) {
  const char *backend = p->how->backend->name;
  const char *isa = p->how->backend->threads ? p->how->kernels->name : backend;
  c->result.threads =
      p->how->backend->threads ? kv_threads_can(p->how->threads) : 1;
  c->result.backend = backend;
  snprintf(c->result.isa, sizeof c->result.isa, "%s", isa);
}

/* If layers read messages of layers above, a cell is replayed whole. */
static void forget_all(kv_pass *p, int c) {
  int layers = p->trace->n_layers;
  p->down = true;
  for (int i = 0; i < layers; i++) {
    if (p->there[c * layers + i]) kv_cell_forget(p->all[c], i);
    p->there[c * layers + i] = false;
  }
}

/* Prepares the cells and reads the stored layers. */
static kv_rc prepare_cells(kv_pass *p, kv_err *e) {
  const kv_replay_keeper *keep = p->how->keep;
  int layers = p->trace->n_layers;
  kv_rc rc = KV_OK;
  for (int c = 0; !rc && c < p->n_all; c++) {
    introduce(p, p->all[c]);
    p->all[c]->plan.scores = p->how->scores;
    p->all[c]->plan.paged |= p->how->paged;
    if (p->how->indices) p->all[c]->plan.indices = p->how->indices;
    rc = kv_cell_prepare(p->all[c], p->how->fidelity, keep != NULL, e);
  }
  if (!rc && keep) rc = keep->begin(keep->self, p->n_all, p->all, p->there, e);
  for (int c = 0; !rc && c < p->n_all; c++) {
    int have = 0;
    for (int i = 0; i < layers; i++) have += p->there[c * layers + i];
    if (have == layers) continue;
    if (p->all[c]->messages) forget_all(p, c);
    p->at[p->cells] = c;
    p->cell[p->cells++] = p->all[c];
  }
  return rc;
}

/* Step by step, other layers' rows come between a layer's rows, so none is
 * computed ahead. */
static int tile_of(const kv_pass *p) {
  const kv_shape *s = &p->cell[0]->shape;
  int whole = s->prompt_len; /* leading tokens that do not attend */
  if (p->how->by_steps || (!p->how->fidelity && !p->how->backend->ahead))
    return 1;
  for (int c = 0; c < p->cells; c++) {
    int chunk = p->cell[c]->shape.chunk;
    if (chunk && chunk < whole) whole = chunk;
  }
  return kv_tile_steps(s, s->n_tokens - whole, p->how->tile);
}

/* Tells the backend what to poll for a stop, and which cells compute ahead: in
 * their order, as many as fit in memory beside the tile. */
static void tell_plans(const kv_pass *p) {
  size_t left = KV_TILE_BYTES;
  for (int c = 0; c < p->cells; c++) {
    kv_plan *plan = &p->cell[c]->plan;
    plan->stop = p->cell[c]->left.stop = p->how->stop;
    plan->known = p->how->fidelity;
    size_t size = kv_ahead_size(plan, p->tile);
    plan->tile = size <= left ? p->tile : 1;
    left -= plan->tile > 1 ? size : 0;
  }
}

static kv_rc prepare(kv_pass *p, kv_err *e) {
  int layers = p->trace->n_layers;
  p->tile = tile_of(p);
  tell_plans(p);
  p->workers = kv_replay_parallel(p->how) ? kv_threads_can(p->how->threads) : 1;
  if (p->how->by_steps)
    p->in_flight = layers;
  else if (p->down || p->workers > layers)
    p->in_flight = 1;
  else
    p->in_flight = p->workers;
  kv_rc rc = kv_groups_open(
      p->cells, p->how->keep ? p->how->keep->most : (double)INFINITY,
      &p->groups, e);
  if (!rc) rc = open_workers(p, e);
  return rc ? rc : open_flights(p, e);
}

static kv_rc open_lists(kv_pass *p, kv_cell *const *cell, int cells,
                        kv_err *e) {
  size_t n = (size_t)cells + 1, layers = (size_t)p->trace->n_layers;
  p->all = kv_zalloc(n, sizeof *p->all);
  p->cell = kv_zalloc(n, sizeof *p->cell);
  p->at = kv_zalloc(n, sizeof *p->at);
  p->there = kv_zalloc(n * layers, sizeof *p->there);
  if (!p->all || !p->cell || !p->at || !p->there)
    return kv_no_memory(e, "cells", n * sizeof *p->cell);
  for (int c = 0; c < cells; c++)
    if (cell[c]->runs) p->all[p->n_all++] = cell[c];
  return KV_OK;
}

/* Replays the layers that were not stored. */
static kv_rc walk(kv_pass *p, kv_err *e) {
  const kv_replay_keeper *keep = p->how->keep;
  kv_rc rc = prepare(p, e);
  if (rc) return rc;
  pass_walk(p);
  if (keep) keep->end(keep->self, p->stopped || p->fault.rc);
  return p->fault.rc ? kv_fail(e, p->fault.rc, "%s", p->fault.text) : KV_OK;
}

/* Finishes the rows, each row in one thread. */
static kv_rc finish(kv_pass *p, kv_err *e) {
  int threads = kv_threads_can(p->how->threads);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int c = 0; c < p->n_all; c++) {
    kv_err why = {0};
    kv_float_ground();
    kv_rc rc = kv_cell_finish(p->all[c], &why);
#pragma omp critical(kv_pass)
    if (rc && !p->fault.rc) p->fault = why;
  }
  return p->fault.rc ? kv_fail(e, p->fault.rc, "%s", p->fault.text) : KV_OK;
}

kv_rc kv_replay(const kv_trace *t, kv_cell *const *cell, int cells,
                const kv_replay_how *how, bool *stopped, kv_err *e) {
  kv_replay_how own = *how;
  kv_pass p = {.trace = t, .how = &own};
  if (how->by_steps) own.keep = NULL;
  *stopped = false;
  kv_float_ground();
  kv_rc rc = open_lists(&p, cell, cells, e);
  if (!rc) rc = prepare_cells(&p, e);
  if (!rc && p.cells > 0) rc = walk(&p, e);
  *stopped = p.stopped;
  if (!rc && !p.stopped) rc = finish(&p, e);
  close_pass(&p);
  return rc;
}
