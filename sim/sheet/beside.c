/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sheet/beside.h"

#include <stdio.h>
#include <stdlib.h>

kv_rc kv_beside_open(int n, kv_beside *b, kv_err *e) {
  size_t m = (size_t)n + 1;
  *b = (kv_beside){.n = n,
                   .cell = kv_zalloc(m, sizeof *b->cell),
                   .decided = kv_zalloc(m, sizeof *b->decided),
                   .each = kv_zalloc(m, sizeof *b->each)};
  if (b->cell && b->decided && b->each) return KV_OK;
  return kv_no_memory(e, "cells", m * sizeof *b->cell);
}

void kv_beside_close(kv_beside *b) {
  for (int i = 0; i < b->n; i++) {
    if (b->decided) kv_decided_close(b->decided[i]);
    if (b->cell) kv_cell_close(&b->cell[i]);
  }
  free(b->cell);
  free(b->decided);
  free(b->each);
  *b = (kv_beside){0};
}

void kv_beside_say(const char *sentence, char *why) {
  snprintf(why, KV_WHY, "%.255s", sentence);
}

kv_rc kv_beside_add(const kv_trace *t, int prompt_len, const kv_cell *whole,
                    int i, kv_beside *b, char *why, kv_err *e) {
  kv_asked_cell asked = {
      .spec = &whole->spec, .entries = -1, .observe = whole->result.observe};
  kv_cell *c = &b->cell[i];
  kv_rc rc = kv_cell_open(t, prompt_len, whole->plan.kernels, &asked, c, e);
  if (!rc && !c->runs) kv_beside_say(c->result.reason, why);
  if (rc || !c->runs) return rc;
  rc = kv_decided_open(c, &b->decided[i], e);
  if (!rc) b->each[b->cells++] = c;
  return rc;
}

kv_rc kv_beside_run(const kv_trace *t, kv_beside *b, const kv_replay_how *how,
                    bool *stopped, kv_err *e) {
  kv_replay_how of = *how;
  of.keep = NULL;
  of.tick = NULL;
  of.watch = NULL;
  of.fidelity = of.scores = false;
  for (int i = 0; i < b->n; i++) {
    if (!b->decided[i]) continue;
    kv_watch *w = kv_decided_watch(b->decided[i]);
    w->next = of.watch;
    of.watch = w;
  }
  return b->cells ? kv_replay(t, b->each, b->cells, &of, stopped, e) : KV_OK;
}
