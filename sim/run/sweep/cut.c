/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting a sweep: sim/run/sweep/cut.h.
 */
#include "sim/run/sweep/cut.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bisection stops when the limit is known to one part in FINE. For a mixed cut
 * the limit may be one part in SLACK higher. */
enum { FINE = 4096, SLACK = 128 };

typedef struct cut {
  int cells, traces, shards;
  const kv_cut_cell *cell;
  const int64_t *shared;
  int *order;     /* [cells] trace after trace, the most expensive cell first */
  int *room;      /* [cells] scratch of mix */
  int64_t *trace; /* [traces] the cost of a trace on one shard */
  int64_t *paid;  /* [shards] shared work paid for the current trace, or -1 */
  int *shard;     /* [cells] for the limit being tried */
  int64_t *cost;  /* [shards] */
} cut;

typedef struct key {
  int64_t trace, own;
  int group, cell;
} key;

static int down(int64_t a, int64_t b) { return (a < b) - (a > b); }

/* Expensive traces first. Equal traces, and equal cells, in the order of the
 * command line, so that the order does not depend on the sort. */
static int by_cost(const void *a, const void *b) {
  const key *x = a, *y = b;
  int c = down(x->trace, y->trace);
  if (!c) c = x->group - y->group;
  if (!c) c = down(x->own, y->own);
  return c ? c : x->cell - y->cell;
}

static void sum_traces(const cut *k) {
  int64_t *most = k->paid; /* scratch: [traces] fits, see open */
  for (int i = 0; i < k->traces; i++) most[i] = -1;
  for (int i = 0; i < k->cells; i++) {
    const kv_cut_cell *c = &k->cell[i];
    k->trace[c->trace] += c->own;
    if (c->shared > most[c->trace]) most[c->trace] = c->shared;
  }
  for (int i = 0; i < k->traces; i++)
    if (most[i] >= 0) k->trace[i] += k->shared[i] + most[i];
}

static kv_rc sort(const cut *k, kv_err *e) {
  size_t n = (size_t)k->cells;
  key *list = kv_zalloc(n + 1, sizeof *list);
  if (!list) return kv_no_memory(e, "cells", n * sizeof *list);
  for (int i = 0; i < k->cells; i++) {
    const kv_cut_cell *c = &k->cell[i];
    list[i] = (key){k->trace[c->trace], c->own, c->trace, i};
  }
  qsort(list, n, sizeof *list, by_cost);
  for (int i = 0; i < k->cells; i++) k->order[i] = list[i].cell;
  free(list);
  return KV_OK;
}

static int common(int a, int b) { return b ? common(b, a % b) : a; }

/* Spreads the n sorted cells of a trace evenly: goes through them by a step of
 * about the golden section that has no divisor in common with n. */
static void mix_trace(int n, int *order, int *room) {
  int step = (int)((int64_t)n * 5 / 8) + 1;
  while (common(n, step) != 1) step++;
  for (int i = 0; i < n; i++) room[i] = order[(int64_t)i * step % n];
  memcpy(order, room, (size_t)n * sizeof *order);
}

static void mix(const cut *k) {
  for (int i = 0, end; i < k->cells; i = end) {
    for (end = i; end < k->cells &&
                  k->cell[k->order[end]].trace == k->cell[k->order[i]].trace;)
      end++;
    mix_trace(end - i, k->order + i, k->room);
  }
}

/* The cost that a cell would add to a shard. */
static int64_t added(const cut *k, const kv_cut_cell *c, int s) {
  if (k->paid[s] < 0) return k->shared[c->trace] + c->shared + c->own;
  return c->own + (c->shared > k->paid[s] ? c->shared - k->paid[s] : 0);
}

/* The first shard within the limit that has paid for the trace, or has not. */
static int first_fit(const cut *k, const kv_cut_cell *c, bool paid,
                     int64_t limit) {
  for (int s = 0; s < k->shards; s++)
    if ((k->paid[s] >= 0) == paid && k->cost[s] + added(k, c, s) <= limit)
      return s;
  return -1;
}

static void put(cut *k, int cell, int s) {
  const kv_cut_cell *c = &k->cell[cell];
  k->cost[s] += added(k, c, s);
  if (c->shared > k->paid[s]) k->paid[s] = c->shared;
  k->shard[cell] = s;
}

/* Do all cells fit? */
static bool fits(cut *k, int64_t limit) {
  int trace = -1;
  memset(k->cost, 0, (size_t)k->shards * sizeof *k->cost);
  for (int i = 0; i < k->cells; i++) {
    const kv_cut_cell *c = &k->cell[k->order[i]];
    if (c->trace != trace)
      for (int s = 0; s < k->shards; s++) k->paid[s] = -1;
    trace = c->trace;
    int s = first_fit(k, c, true, limit);
    if (s < 0) s = first_fit(k, c, false, limit);
    if (s < 0) return false;
    put(k, k->order[i], s);
  }
  return true;
}

/* A lower bound of the limit: all of it in equal parts, each trace paid once;
 * or the most expensive cell alone. */
static int64_t bound(const cut *k) {
  int64_t all = 0, most = 0;
  for (int i = 0; i < k->traces; i++) all += k->trace[i];
  for (int i = 0; i < k->cells; i++) {
    const kv_cut_cell *c = &k->cell[i];
    int64_t alone = k->shared[c->trace] + c->shared + c->own;
    if (alone > most) most = alone;
  }
  int64_t part = all / k->shards + 1;
  return part > most ? part : most;
}

/* Bisection between a limit that is too low and one that suffices. Returns the
 * lowest that was found to suffice. The cut is that of the last limit tried. */
static int64_t search(cut *k) {
  int64_t low = bound(k), high = low;
  if (fits(k, low)) return low;
  do high += high / 4 + 1;
  while (!fits(k, high));
  while (high - low > high / FINE + 1) {
    int64_t middle = low + (high - low) / 2;
    if (fits(k, middle))
      high = middle;
    else
      low = middle;
  }
  return high;
}

/* If there are few cells, taking the most expensive first makes by far the most
 * even cut. If there are many, the cells of a trace are mixed, if that costs
 * almost nothing: a kind of cell that takes longer than predicted is then
 * spread over all shards of the trace. */
static kv_rc deal(cut *k, kv_err *e) {
  kv_rc rc = sort(k, e);
  if (rc) return rc;
  int64_t sorted = search(k), mixed;
  mix(k);
  mixed = search(k);
  if (mixed - sorted > sorted / SLACK) rc = sort(k, e);
  bool last = fits(k, mixed - sorted > sorted / SLACK ? sorted : mixed);
  assert((rc || last) && "it did before");
  (void)last;
  return rc;
}

kv_rc kv_cut(int cells, const kv_cut_cell *cell, int traces,
             const int64_t *shared, int shards, int *shard, int64_t *cost,
             kv_err *e) {
  assert(shards > 0 && "somebody takes the cells");
  size_t rooms = (size_t)(traces > shards ? traces : shards);
  cut k = {cells,
           traces,
           shards,
           cell,
           shared,
           .order = kv_zalloc((size_t)cells + 1, sizeof *k.order),
           .room = kv_zalloc((size_t)cells + 1, sizeof *k.room),
           .trace = kv_zalloc((size_t)traces + 1, sizeof *k.trace),
           .paid = kv_zalloc(rooms, sizeof *k.paid),
           .shard = shard,
           .cost = cost};
  kv_rc rc = KV_OK;
  if (!k.order || !k.room || !k.trace || !k.paid)
    rc = kv_no_memory(e, "shards", rooms * sizeof *k.paid);
  if (!rc) sum_traces(&k);
  if (!rc) rc = deal(&k, e);
  free(k.order);
  free(k.room);
  free(k.trace);
  free(k.paid);
  return rc;
}
