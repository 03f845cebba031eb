/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/run/look/survive.h"

#include <stdlib.h>
#include <string.h>

/* One cell. stamp counts each token once a step: 2 * step if the token was last
 * seen in a view, 2 * step + 1 if it was last found stored. */
typedef struct seen_cell {
  kv_cell *cell;
  kv_watch watch;
  int layers, lanes, tokens;
  kv_survival *lane; /* [layers][lanes] */
  int32_t *stamp;    /* [layers][lanes][tokens] */
} seen_cell;

struct kv_survive {
  int n;
  seen_cell *of;
};

static size_t index_of(const seen_cell *s, int layer, int lane) {
  int i = 0;
  while (s->cell->trace->layer[i].data.layer != layer) i++;
  return (size_t)i * (size_t)s->lanes + (size_t)lane;
}

static void meet_token(uint32_t t, int32_t mark, int32_t *stamp,
                       int32_t *count) {
  if (count && stamp[t] != mark) count[t]++;
  stamp[t] = mark;
}

/* Marks all tokens of entries first..first+n-1 and, unless `count` is NULL,
 * adds to it those that had another mark. */
static void meet(const kv_lane *l, int first, int n, int32_t mark,
                 int32_t *stamp, int32_t *count) {
  for (int i = first; i < first + n; i++) {
    uint32_t t = l->id[i];
    meet_token(t, mark, stamp, count);
    while (l->last && t != l->last[i])
      meet_token(t = l->next[t], mark, stamp, count);
  }
}

static void seen(void *self, int layer, int step, const kv_seen *row) {
  seen_cell *s = self;
  const kv_lane *l = row->lane;
  size_t at = index_of(s, layer, l->lane);
  int32_t *stamp = s->stamp + at * (size_t)s->tokens;
  for (int h = 0; h < row->queries; h++) {
    const kv_view *v = &row->view[h];
    for (int r = 0; r < v->runs; r++)
      meet(l, v->run[r].first, v->run[r].count, 2 * step, stamp,
           s->lane[at].shown);
  }
}

/* Tokens that are neither in the lane nor gone before are gone since `step`. */
static void compare(seen_cell *s, int layer, int step, const kv_lane *l) {
  size_t at = index_of(s, layer, l->lane);
  int32_t *stamp = s->stamp + at * (size_t)s->tokens;
  int32_t *gone = s->lane[at].gone, mark = 2 * step + 1;
  if (!l->dropped) return;
  meet(l, 0, l->n, mark, stamp, NULL);
  for (int t = 0; t < step; t++)
    if (!gone[t] && stamp[t] != mark) gone[t] = step;
}

static void compressed(void *self, int layer, int step, const kv_lane *l) {
  if (l->verbs.n) compare(self, layer, step, l);
}

static void finished(void *self, int layer, const kv_lane *l) {
  compare(self, layer, ((seen_cell *)self)->tokens, l);
}

static void close_cell(seen_cell *s) {
  for (int i = 0; s->lane && i < s->layers * s->lanes; i++)
    free(s->lane[i].gone);
  free(s->lane);
  free(s->stamp);
}

static kv_rc open_cell(kv_cell *c, seen_cell *s, kv_err *e) {
  s->cell = c;
  s->watch = (kv_watch){.self = s,
                        .compressed = compressed,
                        .seen = seen,
                        .finished = finished,
                        .of = c,
                        .concurrent = true};
  s->layers = c->trace->n_layers;
  s->tokens = c->shape.n_tokens;
  s->lanes = kv_lane_count(&c->plan.needs, &c->shape);
  size_t n = (size_t)s->layers * (size_t)s->lanes, tokens = (size_t)s->tokens;
  s->lane = kv_zalloc(n, sizeof *s->lane);
  s->stamp = kv_zalloc(n * tokens, sizeof *s->stamp);
  bool good = s->lane && s->stamp;
  for (size_t i = 0; good && i < n; i++) {
    kv_survival *l = &s->lane[i];
    l->layer = c->trace->layer[i / (size_t)s->lanes].data.layer;
    l->lane = (int)(i % (size_t)s->lanes);
    l->gone = kv_zalloc(2 * tokens, sizeof *l->gone);
    l->shown = l->gone ? l->gone + tokens : NULL;
    good = l->gone != NULL;
  }
  return good ? KV_OK : kv_no_memory(e, "tokens", n * tokens * 12);
}

kv_rc kv_survive_open(const kv_batch *b, const bool *wants, kv_survive **out,
                      kv_err *e) {
  kv_survive *s = kv_zalloc(1, sizeof *s);
  kv_rc rc = KV_OK;
  *out = s;
  if (s) s->of = kv_zalloc((size_t)b->cells + 1, sizeof *s->of);
  if (!s || !s->of) return kv_no_memory(e, "tokens", sizeof *s->of);
  for (int i = 0; !rc && i < b->cells; i++)
    if (b->cell[i].runs && (!wants || wants[i]))
      rc = open_cell(&b->cell[i], &s->of[s->n++], e);
  return rc;
}

const kv_watch *kv_survive_watch(kv_survive *s, const kv_watch *next) {
  for (int i = 0; s && i < s->n; i++) {
    s->of[i].watch.next = next;
    next = &s->of[i].watch;
  }
  return next;
}

void kv_survive_take(kv_survive *s) {
  for (int i = 0; i < s->n; i++) {
    kv_result *r = &s->of[i].cell->result;
    if (!kv_result_ran(r)) continue;
    r->n_survivals = s->of[i].layers * s->of[i].lanes;
    r->survival = s->of[i].lane;
    s->of[i].lane = NULL;
  }
}

void kv_survive_close(kv_survive *s) {
  for (int i = 0; s && i < s->n; i++) close_cell(&s->of[i]);
  if (s) free(s->of);
  free(s);
}
