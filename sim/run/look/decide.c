/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording decisions: contract in sim/run/look/decide.h. Each lane and each
 * query head writes to its own stream, so no thread waits for another; write
 * merges the streams in the file's order.
 */
#include "sim/run/look/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces/decisions/decisions_write.h"
#include "traces/trace/trace.h"

/* Lists of one lane or query head, as runs of consecutive token ids. */
typedef struct stream {
  int lists, cap_lists;
  int32_t *step;   /* [lists] */
  bool *says;      /* [lists] does it change or hide something? */
  size_t *run_end; /* [lists] runs so far */
  size_t runs, cap_runs;
  kv_run *run;
  bool no_memory;
} stream;

struct kv_decide {
  const kv_cell *cell;
  kv_watch watch;
  int lanes, heads, layers;
  stream *stored; /* [layers][lanes] */
  stream *view;   /* [layers][heads] */
  bool early;     /* a memory operation came before the attention: no file can
                     express this */
};

/* --- streams ------------------------------------------------------------ */

static void free_streams(stream *s, int n) {
  for (int i = 0; s && i < n; i++) {
    free(s[i].step);
    free(s[i].says);
    free(s[i].run_end);
    free(s[i].run);
  }
  free(s);
}

/* Grows an array to n elements; its contents stay. */
static bool grow(void **at, size_t size, size_t n) {
  void *more = realloc(*at, n * size);
  if (more) *at = more;
  return more != NULL;
}

static bool open_list(stream *s, int step, bool says) {
  if (s->lists == s->cap_lists) {
    int n = s->cap_lists * 2 + 16;
    if (!grow((void **)&s->step, sizeof *s->step, (size_t)n) ||
        !grow((void **)&s->says, sizeof *s->says, (size_t)n) ||
        !grow((void **)&s->run_end, sizeof *s->run_end, (size_t)n))
      return false;
    s->cap_lists = n;
  }
  s->step[s->lists] = step;
  s->says[s->lists] = says;
  s->run_end[s->lists++] = s->runs;
  return true;
}

static bool put_token(stream *s, int32_t id, bool fresh) {
  kv_run *last = fresh ? NULL : &s->run[s->runs - 1];
  if (last && id == last->first + last->count) {
    last->count++;
    return true;
  }
  if (s->runs == s->cap_runs) {
    size_t n = s->cap_runs * 2 + 64;
    if (!grow((void **)&s->run, sizeof *s->run, n)) return false;
    s->cap_runs = n;
  }
  s->run[s->runs++] = (kv_run){id, 1};
  return true;
}

/* Appends the entries of a view, or of a whole lane, as a list. */
static void put_list(stream *s, int step, bool says, const kv_lane *l,
                     const kv_view *v) {
  bool fresh = true;
  if (s->no_memory) return;
  s->no_memory = !open_list(s, step, says);
  for (int r = 0; r < v->runs; r++)
    for (int i = 0; i < v->run[r].count && !s->no_memory; i++) {
      s->no_memory = !put_token(s, (int32_t)l->id[v->run[r].first + i], fresh);
      fresh = false;
    }
  if (s->lists) s->run_end[s->lists - 1] = s->runs;
}

/* --- watching ----------------------------------------------------------- */

static int index_of(const kv_decide *d, int layer) {
  int i = 0;
  while (d->cell->trace->layer[i].data.layer != layer) i++;
  return i;
}

static void compressed(void *self, int layer, int step, const kv_lane *l) {
  kv_decide *d = self;
  if (l->data->window) return; /* the model's own window, not a decision */
  kv_run all = {0, l->n};
  kv_view whole = {.runs = 1, .entries = l->n, .run = &all};
  stream *s = d->stored + index_of(d, layer) * d->lanes + l->lane;
  put_list(s, step, l->verbs.n > 0, l, &whole);
}

static void saw(void *self, int layer, int step, const kv_seen *seen) {
  kv_decide *d = self;
  const kv_lane *l = seen->lane;
  if (l->verbs.n) d->early = true;
  if (!d->view || l->data->window) return;
  stream *s = d->view + index_of(d, layer) * d->heads + l->first_head;
  for (int h = 0; h < seen->queries; h++)
    put_list(s + h, step, seen->view[h].entries < l->n, l, &seen->view[h]);
}

kv_watch *kv_decide_watch(kv_decide *d) { return &d->watch; }

/* --- life --------------------------------------------------------------- */

kv_rc kv_decide_can(const kv_cell *c, kv_err *e) {
  const kv_needs *n = &c->plan.needs;
  if (kv_cell_slides(c))
    return kv_fail(e, KV_REFUSED,
                   "decisions cannot express what leaves a sliding window, so "
                   "%s gets no file; use windowed=leave",
                   c->spec.method->name);
  if (!n->merges && !n->codings) return KV_OK;
  return kv_fail(
      e, KV_REFUSED,
      "%s %s entries, which decisions cannot express, so it gets no file",
      c->spec.method->name, n->merges ? "merges" : "codes");
}

void kv_decide_close(kv_decide *d) {
  if (!d) return;
  free_streams(d->stored, d->layers * d->lanes);
  free_streams(d->view, d->layers * d->heads);
  free(d);
}

kv_rc kv_decide_open(const kv_cell *c, kv_decide **out, kv_err *e) {
  kv_decide *d = kv_zalloc(1, sizeof *d);
  if (!d) return kv_no_memory(e, "decisions", sizeof *d);
  d->cell = c;
  d->watch = (kv_watch){.self = d,
                        .compressed = compressed,
                        .seen = saw,
                        .of = c,
                        .concurrent = true};
  d->layers = c->trace->n_layers;
  d->heads = c->shape.n_heads;
  d->lanes = kv_lane_count(&c->plan.needs, &c->shape);
  d->stored = kv_zalloc((size_t)(d->layers * d->lanes), sizeof *d->stored);
  if (c->spec.method->view)
    d->view = kv_zalloc((size_t)(d->layers * d->heads), sizeof *d->view);
  if (d->stored && (d->view || !c->spec.method->view)) {
    *out = d;
    return KV_OK;
  }
  kv_decide_close(d);
  return kv_no_memory(e, "decisions", sizeof *d->stored);
}

/* --- the file's order --------------------------------------------------- */

/* Collects the lists with says set in any of n streams, all with the same
 * steps, in the file's order. out must be large enough for all of them. */
static void gather(const stream *s, int n, kv_lists *out, int32_t *step,
                   int64_t *start, int32_t *item) {
  int64_t items = 0;
  *out = (kv_lists){n, 1, 0, step, start, item};
  start[0] = 0;
  for (int i = 0; i < s->lists; i++) {
    bool says = false;
    for (int h = 0; h < n; h++) says |= s[h].says[i];
    if (!says) continue;
    step[out->steps] = s->step[i];
    for (int h = 0; h < n; h++) {
      size_t r = i ? s[h].run_end[i - 1] : 0;
      for (; r < s[h].run_end[i]; r++)
        for (int k = 0; k < s[h].run[r].count; k++)
          item[items++] = s[h].run[r].first + k;
      start[(size_t)out->steps * (size_t)n + (size_t)h + 1] = items;
    }
    out->steps++;
  }
}

static size_t items_of(const stream *s, int n) {
  size_t items = 0;
  for (int h = 0; h < n; h++)
    for (size_t r = 0; r < s[h].runs; r++) items += (size_t)s[h].run[r].count;
  return items;
}

/* Turns runs into lists of tokens. Frees each stream when it is done. */
static kv_rc make_lists(stream *s, int n, kv_lists *out, kv_err *e) {
  size_t lists = (size_t)s->lists * (size_t)n, items = items_of(s, n);
  int32_t *step = kv_zalloc((size_t)s->lists + 1, sizeof *step);
  int64_t *start = kv_zalloc(lists + 1, sizeof *start);
  int32_t *item = kv_zalloc(items + 1, sizeof *item);
  *out = (kv_lists){.step = step, .start = start, .item = item};
  bool short_of = !step || !start || !item;
  for (int h = 0; h < n; h++) short_of |= s[h].no_memory;
  if (short_of) return kv_no_memory(e, "decisions", items * sizeof *item);
  gather(s, n, out, step, start, item);
  return KV_OK;
}

static void free_lists(const kv_lists *l) {
  free((void *)l->step);
  free((void *)l->start);
  free((void *)l->item);
}

static kv_rc make_layers(kv_decide *d, kv_decided *to, bool *stores,
                         bool *views, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < d->layers; i++) {
    to[i].layer = d->cell->trace->layer[i].data.layer;
    rc = make_lists(d->stored + i * d->lanes, d->lanes, &to[i].stored, e);
    if (!rc && d->view)
      rc = make_lists(d->view + i * d->heads, d->heads, &to[i].view, e);
    *stores |= to[i].stored.steps > 0;
    *views |= to[i].view.steps > 0;
  }
  return rc;
}

kv_rc kv_decide_write(kv_decide *d, const char *path, const char *name,
                      kv_err *e) {
  const kv_needs *need = &d->cell->plan.needs;
  kv_decided *layer = kv_zalloc((size_t)d->layers, sizeof *layer);
  kv_digest identity;
  if (!layer) return kv_no_memory(e, "decisions", sizeof *layer);
  kv_decisions out = {.reindex = need->reindex,
                      .block = need->block,
                      .stored_heads = d->lanes,
                      .layers = d->layers,
                      .layer = layer};
  kv_rc rc = make_layers(d, layer, &out.stores, &out.views, e);
  if (!out.views)
    out.stores = true; /* a file without decisions stores everything */
  if (!rc && d->early)
    rc = kv_fail(e, KV_REFUSED,
                 "%s changes memory before it attends, which decisions cannot "
                 "express, so it gets no file",
                 d->cell->spec.method->name);
  if (!rc) rc = kv_trace_identity(d->cell->trace, &identity, e);
  if (!rc)
    rc = kv_decisions_write(path, name, &identity, &d->cell->shape, &out, e);
  for (int i = 0; i < d->layers; i++) {
    free_lists(&layer[i].stored);
    free_lists(&layer[i].view);
  }
  free(layer);
  return rc;
}
