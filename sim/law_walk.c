/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays for the laws.
 */
#include "sim/law_walk.h"

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

/* --- walks with an interpreter ------------------------------------------ */

typedef struct walk {
  kv_law_lane *lane;
  kv_law_row *row;
  int shadows;
  kv_shadow *shadow; /* [shadows] of the layer in flight */
  kv_err broken;     /* the first */
} walk;

static void keep_first(walk *w, kv_rc rc, const kv_err *e) {
  if (rc && !w->broken.rc) w->broken = *e;
}

static void settled(void *self, int layer, int step, const kv_lane *l) {
  walk *w = self;
  kv_shadow *s = &w->shadow[l->lane];
  kv_err e = {0};
  (void)layer, (void)step;
  if (w->broken.rc) return;
  kv_rc rc = kv_shadow_follow(s, l, &e);
  if (!rc && w->lane) rc = w->lane(s, l, &e);
  keep_first(w, rc, &e);
}

static void seen(void *self, int layer, int step, const kv_seen *row) {
  walk *w = self;
  kv_err e = {0};
  (void)layer;
  if (w->broken.rc) return;
  kv_rc rc = kv_shadow_follow(&w->shadow[row->lane->lane], row->lane, &e);
  if (!rc && w->row) rc = w->row(row, step, &e);
  keep_first(w, rc, &e);
}

static void finished(void *self, int layer, const kv_lane *l) {
  walk *w = self;
  kv_shadow *s = &w->shadow[l->lane];
  kv_err e = {0};
  (void)layer;
  if (!w->broken.rc && w->lane) keep_first(w, w->lane(s, l, &e), &e);
  kv_shadow_begin(s);
}

kv_rc kv_law_walk(const kv_law_case *c, kv_law_lane *lane, kv_law_row *row,
                  kv_err *e) {
  walk w = {.lane = lane, .row = row, .shadows = c->trace->shape.n_heads};
  kv_watch watch = {
      .self = &w, .settled = settled, .seen = seen, .finished = finished};
  kv_cell cell = {0};
  kv_rc rc = KV_OK;
  w.shadow = kv_zalloc((size_t)w.shadows, sizeof *w.shadow);
  if (!w.shadow) return kv_no_memory(e, "a law", sizeof *w.shadow);
  for (int i = 0; !rc && i < w.shadows; i++)
    rc = kv_shadow_open(c->trace->shape.n_tokens, &w.shadow[i], e);
  if (!rc)
    rc = kv_law_replay(c, &(kv_law_how){.threads = 1, .watch = &watch}, &cell,
                       e);
  if (!rc && w.broken.rc) rc = kv_fail(e, w.broken.rc, "%s", w.broken.text);
  kv_cell_close(&cell);
  for (int i = 0; i < w.shadows; i++) kv_shadow_close(&w.shadow[i]);
  free(w.shadow);
  return rc;
}
