/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over a trace: its memory, the parts kept from before, and the rows
 * at its end. Which thread works on what is in sim/engine/replay_walk.c.
 */
#include "sim/engine/replay_part.h"

#include "ref/backend/ahead.h"

#include "traces/text/threads.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Collects the k of recall_budget of all cells; of every layer if they differ.
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

/* Where layers read what those above publish, a cell is replayed whole. */
static void forget_all(kv_pass *p, int c) {
  int layers = p->trace->n_layers;
  p->down = true;
  for (int i = 0; i < layers; i++) {
    if (p->there[c * layers + i]) kv_cell_forget(p->all[c], i);
    p->there[c * layers + i] = false;
  }
}

/* Prepares the cells and reads the layers that were kept. */
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

/* Step by step the rows of other layers lie between a layer's: none is
 * computed ahead. */
static int tile_of(const kv_pass *p) {
  const kv_shape *s = &p->cell[0]->shape;
  int whole = s->prompt_len; /* tokens, from the first on, that do not attend */
  if (p->how->by_steps || (!p->how->fidelity && !p->how->backend->ahead))
    return 1;
  for (int c = 0; c < p->cells; c++) {
    int chunk = p->cell[c]->shape.chunk;
    if (chunk && chunk < whole) whole = chunk;
  }
  return kv_tile_steps(s, s->n_tokens - whole, p->how->tile);
}

/* What the backend is told of this replay: whom it asks to stop, and which
 * cells look ahead: as many, in their order, as fit beside the tile. */
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

/* Replays the layers that were not kept. */
static kv_rc walk(kv_pass *p, kv_err *e) {
  const kv_replay_keeper *keep = p->how->keep;
  kv_rc rc = prepare(p, e);
  if (rc) return rc;
  kv_pass_walk(p);
  if (keep) keep->end(keep->self, p->stopped || p->fault.rc);
  return p->fault.rc ? kv_fail(e, p->fault.rc, "%s", p->fault.text) : KV_OK;
}

/* Finishes the rows, one thread a row. */
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
