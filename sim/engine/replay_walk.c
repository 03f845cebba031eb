/* SPDX-License-Identifier: Apache-2.0
 *
 * The two walks over a trace: which worker replays which layer, in which order,
 * and which cells go together.
 */
#include "sim/engine/replay_part.h"

#include <omp.h>

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

/* Advances progress. A token of a group counts for the group's share of the
 * cells that needed the layer. */
static void advance(const kv_pass *p, kv_flight *f, int tokens) {
  int64_t all = p->cell[0]->shape.n_tokens, now;
  f->seen += (double)tokens * f->n / f->wanting;
  now = f->seen < (double)all ? (int64_t)f->seen : all;
  done(p, now - f->reported);
  f->reported = now;
}

/* --- one layer, one group ----------------------------------------------- */

/* Checks the numbers of a layer that come from a file; those of a trace in
 * memory are believed. */
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

/* Checks the numbers of a layer that failed. They were finite when they were
 * first read; if they no longer are, somebody rewrote the file through a
 * mapping, which its modification time need not show. */
static kv_rc look_again(const kv_pass *p, int index, kv_err *e) {
  kv_err why = {0};
  if (!scan(p->trace, index, &why)) return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s, and did not before: the file was rewritten while it was "
                 "read; write it anew and repeat the command",
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

/* Removes the last cells from the group; what this layer gave them so far is
 * discarded. */
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

/* Predicts how long the group will take, once a few steps were measured,
 * counting a step as proportional to its row's length. If that is too long,
 * some cells are put off, unless more is done than is left. None is where
 * layers publish messages: a layer that is begun anew would find its own.
 * Called after the step of token t. */
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

/* Layer by layer. With more threads than layers all threads share one layer;
 * otherwise each thread has its own. */
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

void kv_pass_walk(kv_pass *p) {
  if (p->how->by_steps)
    walk_steps(p);
  else
    walk_layers(p);
}
