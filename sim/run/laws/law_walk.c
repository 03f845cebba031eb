/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays for the laws: contract in sim/run/laws/law_walk.h.
 */
#include "sim/run/laws/law_walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

kv_rc kv_law_broken(const kv_lane *l, kv_err *e, const char *format, ...) {
  char what[256];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return kv_fail(e, KV_DIFFERENT, "layer %d, lane %d, step %d: %s",
                 l->data->layer, l->lane, l->step, what);
}

kv_rc kv_law_replay(const kv_law_case *c, const kv_law_how *how, kv_cell *out,
                    kv_err *e) {
  const kv_kernels *kernels = how->kernels ? how->kernels : kv_kernels_best();
  bool stopped;
  kv_asked_cell asked = {.spec = c->spec, .entries = c->entries};
  kv_rc rc = kv_cell_open(c->trace, c->prompt_len, kernels, &asked, out, e);
  if (rc) return rc;
  if (out->runs) {
    kv_replay_how replay = {.backend = c->backend,
                            .kernels = kernels,
                            .threads = how->threads,
                            .by_steps = how->by_steps,
                            .fidelity = how->fidelity,
                            .watch = how->watch};
    rc = kv_replay(c->trace, &out, 1, &replay, &stopped, e);
    if (rc) return rc;
  }
  if (kv_result_ran(&out->result)) return KV_OK;
  return kv_fail(e, KV_REFUSED, "%s", out->result.reason);
}

kv_law_run kv_law_run_of(const kv_cell *cell) {
  const kv_result *r = &cell->result;
  return (kv_law_run){r->output, r->state, r->journal};
}

typedef struct walk {
  int n, at; /* number of laws; the broken one */
  const kv_law_look *look;
  int readers;
  kv_replica *reader; /* [readers] of the layer in flight */
  kv_err broken;      /* the first */
} walk;

static void keep_first(walk *w, int at, kv_rc rc, const kv_err *e) {
  if (!rc || w->broken.rc) return;
  w->broken = *e;
  w->at = at;
}

static void ask_lane(walk *w, const kv_replica *s, const kv_lane *l) {
  kv_err e = {0};
  for (int i = 0; i < w->n; i++)
    if (w->look[i].lane) keep_first(w, i, w->look[i].lane(s, l, &e), &e);
}

static void ask_row(walk *w, const kv_seen *row, int step) {
  kv_err e = {0};
  for (int i = 0; i < w->n; i++)
    if (w->look[i].row) keep_first(w, i, w->look[i].row(row, step, &e), &e);
}

/* Runs the lane's interpreter up to the lane's current state. */
static kv_replica *follow(walk *w, const kv_lane *l) {
  kv_replica *s = &w->reader[l->lane];
  kv_err e = {0};
  keep_first(w, 0, kv_replica_follow(s, l, &e), &e);
  return s;
}

static void compressed(void *self, int layer, int step, const kv_lane *l) {
  walk *w = self;
  (void)layer, (void)step;
  if (w->broken.rc) return;
  const kv_replica *s = follow(w, l);
  if (!w->broken.rc) ask_lane(w, s, l);
}

static void seen(void *self, int layer, int step, const kv_seen *row) {
  walk *w = self;
  (void)layer;
  if (w->broken.rc) return;
  follow(w, row->lane);
  if (!w->broken.rc) ask_row(w, row, step);
}

static void finished(void *self, int layer, const kv_lane *l) {
  walk *w = self;
  kv_replica *s = &w->reader[l->lane];
  (void)layer;
  if (!w->broken.rc) ask_lane(w, s, l);
  kv_replica_begin(s, l->lane, NULL);
}

kv_rc kv_law_walk(const kv_law_case *c, int n, const kv_law_look *look,
                  int *broken, kv_law_run *out, kv_err *e) {
  walk w = {.n = n, .look = look, .readers = c->trace->shape.n_heads};
  kv_watch watch = {
      .self = &w, .compressed = compressed, .seen = seen, .finished = finished};
  kv_cell cell = {0};
  kv_rc rc = KV_OK;
  *broken = 0;
  w.reader = kv_zalloc((size_t)w.readers, sizeof *w.reader);
  if (!w.reader) return kv_no_memory(e, "a law", sizeof *w.reader);
  for (int i = 0; !rc && i < w.readers; i++)
    rc = kv_replica_open(c->trace->shape.n_tokens, KV_MAX_CODINGS, &w.reader[i],
                         e);
  for (int i = 0; !rc && i < w.readers; i++)
    kv_replica_begin(&w.reader[i], i, NULL);
  if (!rc)
    rc = kv_law_replay(c, &(kv_law_how){.threads = 1, .watch = &watch}, &cell,
                       e);
  if (!rc && w.broken.rc) rc = kv_fail(e, w.broken.rc, "%s", w.broken.text);
  *broken = w.at;
  *out = kv_law_run_of(&cell);
  kv_cell_close(&cell);
  for (int i = 0; i < w.readers; i++) kv_replica_close(&w.reader[i]);
  free(w.reader);
  return rc;
}
