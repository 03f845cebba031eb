/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over a trace: who works on which layer, in which order.
 */
#include "sim/replay.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pass {
  const kv_trace *trace;
  kv_cell **cell; /* [cells] those that run */
  int cells;
  const kv_replay_how *how;
  kv_worker *worker; /* [workers] */
  int workers;
  kv_layer **layer; /* [in_flight] */
  int in_flight;
  _Atomic bool ended; /* stopped, or the trace is bad */
  _Atomic bool stopped;
  kv_err fault;
} pass;

/* --- memory ------------------------------------------------------------- */

static void close_worker(const pass *p, kv_worker *w) {
  p->how->backend->scratch_close(w->scratch);
  kv_truth_close(w->truth);
  free(w->mark);
  free(w->seconds);
  free(w->store);
}

static kv_rc open_worker(const pass *p, const kv_plan *const *plan,
                         const int *top, kv_worker *w, kv_err *e) {
  const kv_shape *shape = &p->cell[0]->shape;
  size_t cells = (size_t)p->cells;
  w->mark = kv_zalloc(1, kv_cost_mark_size(shape));
  w->seconds = kv_zalloc(cells, sizeof *w->seconds);
  w->store = kv_zalloc(cells, sizeof *w->store);
  if (!w->mark || !w->seconds || !w->store)
    return kv_no_memory(e, "a worker", kv_cost_mark_size(shape));
  kv_rc rc =
      p->how->backend->scratch_open(shape, plan, p->cells, &w->scratch, e);
  if (!rc && p->how->fidelity)
    rc = kv_truth_open(shape, &p->trace->rope, p->how->kernels, p->cells, top,
                       &w->truth, e);
  return rc;
}

static kv_rc open_workers(pass *p, kv_err *e) {
  const kv_plan **plan = kv_zalloc((size_t)p->cells, sizeof *plan);
  int *top = kv_zalloc((size_t)p->cells, sizeof *top);
  p->worker = kv_zalloc((size_t)p->workers, sizeof *p->worker);
  kv_rc rc = KV_OK;
  if (!plan || !top || !p->worker)
    rc = kv_no_memory(e, "workers", (size_t)p->cells * sizeof *plan);
  for (int c = 0; !rc && c < p->cells; c++) {
    plan[c] = &p->cell[c]->plan;
    top[c] = p->cell[c]->top > 0 ? p->cell[c]->top : 1;
  }
  for (int i = 0; !rc && i < p->workers; i++)
    rc = open_worker(p, plan, top, &p->worker[i], e);
  free(plan);
  free(top);
  return rc;
}

static kv_rc open_layers(pass *p, kv_err *e) {
  p->layer = kv_zalloc((size_t)p->in_flight, sizeof *p->layer);
  if (!p->layer)
    return kv_no_memory(e, "layers", (size_t)p->in_flight * sizeof *p->layer);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < p->in_flight; i++)
    rc = kv_layer_open(p->how->backend, p->cell, p->cells, p->how->watch,
                       &p->layer[i], e);
  return rc;
}

static void close_pass(pass *p) {
  for (int i = 0; p->layer && i < p->in_flight; i++)
    kv_layer_close(p->layer[i]);
  for (int i = 0; p->worker && i < p->workers; i++)
    close_worker(p, &p->worker[i]);
  free(p->layer);
  free(p->worker);
  free(p->cell);
}

/* --- walking ------------------------------------------------------------ */

static void end(pass *p, const kv_err *why) {
#pragma omp critical(kv_pass)
  if (why && !p->fault.rc) p->fault = *why;
  p->ended = true;
}

static bool go_on(pass *p) {
  if (!p->ended && p->how->stop && p->how->stop()) {
    p->stopped = true;
    end(p, NULL);
  }
  return !p->ended;
}

static void done(const pass *p, int64_t units) {
  if (p->how->tick) p->how->tick(p->how->self, units);
}

static void begin_layer(pass *p, kv_layer *l, int index, const kv_team *team) {
  kv_err e = {0};
  if (kv_trace_scan_layer(p->trace, index, &e)) {
    end(p, &e);
    return;
  }
  kv_layer_begin(l, index);
  kv_layer_prompt(l, team);
  done(p, p->cell[0]->shape.prompt_len);
}

static void end_layer(pass *p, kv_layer *l, int index) {
  kv_err e = {0};
  if (kv_layer_end(l, &e)) end(p, &e);
  if (kv_trace_damaged(p->trace, &e)) end(p, &e);
  kv_trace_release_layer(p->trace, index);
}

static void walk_layer(pass *p, kv_layer *l, int index, const kv_team *team) {
  const kv_shape *s = &p->cell[0]->shape;
  if (go_on(p)) begin_layer(p, l, index, team);
  for (int t = s->prompt_len; t < s->n_tokens && go_on(p); t++) {
    kv_layer_step(l, t, team);
    done(p, 1);
  }
  if (!p->ended) end_layer(p, l, index);
}

/* More threads than layers: all work on one layer. Else a layer each. */
static void walk_layers(pass *p) {
  int layers = p->trace->n_layers;
  if (p->in_flight == 1) {
    kv_team team = {p->worker, p->workers};
    for (int i = 0; i < layers; i++) walk_layer(p, p->layer[0], i, &team);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(p->workers)
  for (int i = 0; i < layers; i++) {
    int me = omp_get_thread_num();
    kv_team team = {&p->worker[me], 1};
    kv_float_ground();
    walk_layer(p, p->layer[me], i, &team);
  }
}

static void walk_steps(pass *p) {
  const kv_shape *s = &p->cell[0]->shape;
  kv_team team = {p->worker, p->workers};
  for (int i = 0; i < p->in_flight && go_on(p); i++)
    begin_layer(p, p->layer[i], i, &team);
  for (int t = s->prompt_len; t < s->n_tokens && go_on(p); t++) {
    for (int i = 0; i < p->in_flight; i++) kv_layer_step(p->layer[i], t, &team);
    done(p, p->in_flight);
  }
  for (int i = 0; i < p->in_flight && !p->ended; i++)
    end_layer(p, p->layer[i], i);
}

/* --- the pass ----------------------------------------------------------- */

int64_t kv_replay_units(const kv_trace *t, int prompt_len) {
  (void)prompt_len; /* a prompt token and a step count alike */
  return (int64_t)t->n_layers * t->shape.n_tokens;
}

/* Only the reference is called from several threads and has kernel sets. */
static bool by_ref(const pass *p) {
  return strcmp(p->how->backend->name, kv_backend_ref.name) == 0;
}

/* May several threads tell what they see? */
static bool free_to_part(const pass *p) {
  const kv_watch *w = p->how->watch;
  while (w && w->stands_by) w = w->next;
  return w == NULL && by_ref(p);
}

static kv_rc prepare(pass *p, kv_err *e) {
  int layers = p->trace->n_layers;
  kv_rc rc = KV_OK;
  for (int c = 0; !rc && c < p->cells; c++)
    rc = kv_cell_prepare(p->cell[c], p->how->fidelity, e);
  if (rc) return rc;
  p->workers = free_to_part(p) ? p->how->threads : 1;
  if (p->how->by_steps)
    p->in_flight = layers;
  else if (p->workers > layers)
    p->in_flight = 1;
  else
    p->in_flight = p->workers;
  rc = open_workers(p, e);
  return rc ? rc : open_layers(p, e);
}

static kv_rc finish(pass *p, kv_err *e) {
  const char *backend = p->how->backend->name;
  const char *isa = by_ref(p) ? p->how->kernels->name : backend;
  kv_rc rc = KV_OK;
  for (int c = 0; !rc && c < p->cells; c++) {
    kv_cell *cell = p->cell[c];
    for (int i = 0; i < p->workers; i++)
      cell->seconds += p->worker[i].seconds[c];
    cell->result.threads = by_ref(p) ? p->how->threads : 1;
    cell->result.backend = backend;
    snprintf(cell->result.isa, sizeof cell->result.isa, "%s", isa);
    rc = kv_cell_finish(cell, e);
  }
  return rc;
}

kv_rc kv_replay(const kv_trace *t, kv_cell *const *cell, int cells,
                const kv_replay_how *how, bool *stopped, kv_err *e) {
  pass p = {.trace = t, .how = how};
  p.cell = kv_zalloc((size_t)cells + 1, sizeof *p.cell);
  if (!p.cell) return kv_no_memory(e, "cells", sizeof *p.cell);
  for (int c = 0; c < cells; c++)
    if (cell[c]->runs) p.cell[p.cells++] = cell[c];
  *stopped = false;
  kv_rc rc = KV_OK;
  if (p.cells == 0) goto out;
  kv_float_ground();
  rc = prepare(&p, e);
  if (rc) goto out;
  if (how->by_steps)
    walk_steps(&p);
  else
    walk_layers(&p);
  *stopped = p.stopped;
  if (p.fault.rc)
    rc = kv_fail(e, p.fault.rc, "%s", p.fault.text);
  else if (!p.stopped)
    rc = finish(&p, e);
out:
  close_pass(&p);
  return rc;
}
