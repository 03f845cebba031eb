/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: sim/run/look/device_caches.h.
 */
#include "sim/run/look/device_caches.h"

#include "ref/ground/counter.h"
#include "sim/replay/measure/cost.h"
#include <stdlib.h>
#include <string.h>

/* Bytes of all lanes at a step. */
typedef struct at_step {
  kv_counter fetched, held;
} at_step;

/* One cache of a cell: what it did in all lanes. */
typedef struct account {
  kv_counter looked, hits;
  at_step *step; /* [tokens seen] */
} account;

/* Memory of one lane, used by one thread at a time. */
typedef struct room {
  uint8_t *mark, *some; /* kv_cost_mark_size bytes each, zeroed */
  uint32_t *token;      /* [tokens] looked up */
  kv_cache *cache;      /* [asked] */
} room;

typedef struct of_cell {
  kv_cell *cell;
  kv_watch watch;
  const kv_cache_list *asked;
  int lanes, rooms;
  room *room;       /* [layers][lanes] */
  account *account; /* [asked] */
} of_cell;

struct kv_device_caches {
  int n;
  of_cell *of;
};

static room *room_of(const of_cell *c, int layer, int lane) {
  int i = 0;
  while (c->cell->trace->layer[i].data.layer != layer) i++;
  return &c->room[(size_t)i * (size_t)c->lanes + (size_t)lane];
}

static int64_t bytes_of_some(room *r, const kv_lane *l) {
  int64_t bytes = kv_cost_marked(l, r->some);
  memset(r->some, 0, (size_t)l->n);
  return bytes;
}

/* n: tokens to look up, the marked ones of the lane. */
static void look_up(account *a, kv_cache *c, room *r, const kv_lane *l,
                    int step, int n) {
  at_step *to = &a->step[step - 1];
  for (int i = 0; i < l->n; i++) r->some[i] = c->in[l->id[i]] ? 0 : r->mark[i];
  kv_counter_add(&to->fetched, bytes_of_some(r, l));
  kv_counter_add(&a->looked, n);
  kv_counter_add(&a->hits, kv_cache_step(c, step, n, r->token));
  for (int i = 0; i < l->n; i++) r->some[i] = c->in[l->id[i]];
  kv_counter_add(&to->held, bytes_of_some(r, l));
}

static void seen(void *self, int layer, int step, const kv_seen *row) {
  const of_cell *c = self;
  const kv_lane *l = row->lane;
  room *r = room_of(c, layer, l->lane);
  int n = 0;
  kv_cost_mark_fetched(row, r->mark);
  for (int i = 0; i < l->n; i++)
    if (r->mark[i]) r->token[n++] = l->id[i];
  for (int i = 0; i < c->asked->n; i++)
    look_up(&c->account[i], &r->cache[i], r, l, step, n);
  memset(r->mark, 0, (size_t)l->n);
}

static void close_cell(of_cell *c) {
  for (int i = 0; c->room && i < c->rooms; i++) {
    room *r = &c->room[i];
    for (int j = 0; r->cache && j < c->asked->n; j++)
      kv_cache_close(&r->cache[j]);
    free(r->cache);
    free(r->mark);
    free(r->token);
  }
  for (int i = 0; c->account && i < c->asked->n; i++) free(c->account[i].step);
  free(c->account);
  free(c->room);
}

static kv_rc open_room(const of_cell *c, room *r, kv_err *e) {
  size_t size = kv_cost_mark_size(&c->cell->shape);
  size_t tokens = (size_t)c->cell->shape.n_tokens, n = (size_t)c->asked->n;
  r->mark = kv_zalloc(2, size);
  r->some = r->mark ? r->mark + size : NULL;
  r->token = kv_zalloc(tokens, sizeof *r->token);
  r->cache = kv_zalloc(n, sizeof *r->cache);
  if (!r->mark || !r->token || !r->cache)
    return kv_no_memory(e, "caches", 2 * size + tokens * 4);
  kv_rc rc = KV_OK;
  for (size_t i = 0; !rc && i < n; i++)
    rc = kv_cache_open(&c->asked->of[i], (int)tokens, &r->cache[i], e);
  return rc;
}

static kv_rc open_cell(kv_cell *cell, const kv_cache_list *asked, of_cell *c,
                       kv_err *e) {
  size_t tokens = (size_t)cell->shape.n_tokens, n = (size_t)asked->n;
  c->cell = cell;
  c->asked = asked;
  c->watch =
      (kv_watch){.self = c, .seen = seen, .of = cell, .concurrent = true};
  c->lanes = kv_lane_count(&cell->plan.needs, &cell->shape);
  c->rooms = cell->trace->n_layers * c->lanes;
  c->room = kv_zalloc((size_t)c->rooms, sizeof *c->room);
  c->account = kv_zalloc(n, sizeof *c->account);
  bool good = c->room && c->account;
  for (size_t i = 0; good && i < n; i++) {
    c->account[i].step = kv_zalloc(tokens, sizeof(at_step));
    good = c->account[i].step != NULL;
  }
  kv_rc rc = good ? KV_OK : kv_no_memory(e, "caches", n * tokens * 16);
  for (int i = 0; !rc && i < c->rooms; i++) rc = open_room(c, &c->room[i], e);
  return rc;
}

kv_rc kv_device_caches_open(const kv_batch *b, const kv_cache_list *asked,
                            bool each, kv_device_caches **out, kv_err *e) {
  kv_device_caches *d = kv_zalloc(1, sizeof *d);
  kv_rc rc = KV_OK;
  *out = d;
  if (d) d->of = kv_zalloc((size_t)b->cells + 1, sizeof *d->of);
  if (!d || !d->of) return kv_no_memory(e, "caches", sizeof *d->of);
  for (int i = 0; !rc && i < b->cells; i++, asked += each)
    if (b->cell[i].runs && b->cell[i].plan.needs.host && asked->n)
      rc = open_cell(&b->cell[i], asked, &d->of[d->n++], e);
  return rc;
}

const kv_watch *kv_device_caches_watch(kv_device_caches *d,
                                       const kv_watch *next) {
  for (int i = 0; d && i < d->n; i++) {
    d->of[i].watch.next = next;
    next = &d->of[i].watch;
  }
  return next;
}

static void sum_up(const of_cell *c, int at, kv_device_cache *out) {
  const account *a = &c->account[at];
  *out = (kv_device_cache){.there = true,
                           .looked = kv_counter_get(&a->looked),
                           .hits = kv_counter_get(&a->hits)};
  strcpy(out->name, c->asked->of[at].name);
  for (int i = 0; i < c->cell->shape.n_tokens; i++) {
    int64_t fetched = kv_counter_get(&a->step[i].fetched);
    int64_t held = kv_counter_get(&a->step[i].held);
    out->fetched += fetched;
    if (fetched > out->fetched_peak) out->fetched_peak = fetched;
    if (held > out->held_peak) out->held_peak = held;
  }
}

kv_rc kv_device_caches_take(const kv_device_caches *d, kv_err *e) {
  for (int i = 0; i < d->n; i++) {
    const of_cell *c = &d->of[i];
    kv_result *r = &c->cell->result;
    size_t n = (size_t)c->asked->n;
    if (!kv_result_ran(r)) continue;
    r->device_cache = kv_zalloc(n, sizeof *r->device_cache);
    if (!r->device_cache)
      return kv_no_memory(e, "caches", n * sizeof *r->device_cache);
    r->n_device_caches = c->asked->n;
    for (int j = 0; j < r->n_device_caches; j++)
      sum_up(c, j, &r->device_cache[j]);
  }
  return KV_OK;
}

void kv_device_caches_close(kv_device_caches *d) {
  for (int i = 0; d && i < d->n; i++) close_cell(&d->of[i]);
  if (d) free(d->of);
  free(d);
}
