/* SPDX-License-Identifier: Apache-2.0
 *
 * The shards of a sweep: sim/run/sweep/shares.h.
 */
#include "sim/run/sweep/shares.h"

#include "ref/ground/sha256.h"
#include "sim/ask/spec.h"
#include "sim/run/sweep/cut.h"
#include "sim/run/sweep/effort.h"
#include "traces/trace/trace.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is collected before the cut. */
typedef struct plan {
  const kv_batch_ask *ask;
  kv_shares *out;
  kv_cut_cell *cell; /* [cells] */
  int64_t *shared;   /* [traces] */
  int *order, *rank; /* [traces] by path: the i-th trace; a trace's rank */
} plan;

void kv_shares_close(kv_shares *s) {
  free(s->first);
  free(s->shard);
  free(s->own);
  free(s->runs);
  free(s->can);
  free(s->cost);
  *s = (kv_shares){0};
}

int kv_shares_count(const kv_shares *s, int trace, int mine) {
  int n = 0;
  for (int i = s->first[trace]; i < s->first[trace + 1]; i++)
    n += s->shard[i] == mine;
  return n;
}

/* --- one cell ----------------------------------------------------------- */

/* A value of the knob near the search's result, if bytes grow with entries. */
static int guess(const kv_budget *b, int places) {
  int64_t place = places * b->num / b->den;
  if (place > places) return places;
  return place > 0 ? (int)place : 1;
}

/* Opens a cell as a batch will, but without a search. If the guess is refused,
 * uses the place that the search tries first. *probes: about how many it will
 * need; 0: there is no search. */
static kv_rc sketch(const kv_batch_ask *ask, const kv_trace *t, int prompt,
                    const kv_spec *spec, const kv_budget *budget, kv_cell *c,
                    int *probes, kv_err *e) {
  kv_asked_cell asked = {.spec = spec, .budget = budget, .entries = -1};
  const kv_param *knob = kv_spec_knob(spec->method);
  int tokens = t->shape.n_tokens, places = 0;
  kv_rc rc = KV_OK;
  if (budget && kv_budget_in_bytes(budget)) {
    places = kv_knob_places(knob, tokens);
    asked.entries = kv_knob_value(knob, tokens, guess(budget, places));
  } else if (budget && !budget->layers) {
    rc = kv_budget_entries(budget, prompt, &asked.entries, e);
  }
  *probes = places ? kv_budget_probes(1, places) : 0;
  if (*probes > KV_BUDGET_USUAL) *probes = KV_BUDGET_USUAL;
  if (!rc) rc = kv_cell_open(t, prompt, ask->how.kernels, &asked, c, e);
  if (rc || c->runs || !places) return rc;
  kv_cell_close(c);
  asked.entries = kv_knob_value(knob, tokens, places);
  return kv_cell_open(t, prompt, ask->how.kernels, &asked, c, e);
}

/* A refused cell costs almost nothing. */
static kv_rc weigh(plan *p, const kv_trace *t, int prompt, const kv_spec *spec,
                   const kv_budget *budget, int trace, int at, kv_err *e) {
  kv_cell c = {0};
  kv_effort own = {{0}}, rows = {{0}}, probe = {{0}};
  int probes = 0;
  kv_rc rc = sketch(p->ask, t, prompt, spec, budget, &c, &probes, e);
  bool runs = !rc && c.runs;
  if (runs) kv_effort_cell(&c, &own);
  if (runs) kv_effort_shared(&c, &rows);
  if (runs && probes) kv_effort_probe(&c, budget->basis, &probe);
  int64_t search = kv_effort_cost(&probe), most = KV_EFFORT_MOST;
  int64_t mine = kv_effort_cost(&own);
  mine =
      probes && search > (most - mine) / probes ? most : mine + search * probes;
  p->cell[at] = (kv_cut_cell){p->rank[trace], mine, kv_effort_cost(&rows)};
  p->out->runs[at] = runs;
  kv_cell_close(&c);
  return rc;
}

/* --- all cells ---------------------------------------------------------- */

/* Number of cells of a trace, the same for each. */
static int cells_of(const kv_batch_ask *ask) {
  int n = 0, each = ask->budgets->n > 0 ? ask->budgets->n : 1;
  const kv_budget *b;
  for (int i = 0; i < ask->specs->n * each; i++)
    n += kv_batch_asks(&ask->specs->spec[i / each], ask->budgets, i % each, &b);
  return n;
}

static kv_rc weigh_trace(plan *p, const char *path, int trace, kv_err *e) {
  const kv_batch_ask *ask = p->ask;
  int each = ask->budgets->n > 0 ? ask->budgets->n : 1;
  int at = p->out->first[trace];
  int prompt = 0;
  kv_trace *t = NULL;
  kv_effort shared;
  kv_rc rc = kv_trace_open(path, &t, e);
  if (!rc) rc = kv_batch_prompt(ask, t, &prompt, e);
  bool blind = rc == KV_REFUSED; /* and so are all its cells */
  if (blind) rc = KV_OK;
  if (!rc) {
    kv_effort_trace(t, prompt, &shared);
    p->shared[p->rank[trace]] = kv_effort_cost(&shared);
  }
  for (int i = 0; !rc && i < ask->specs->n * each; i++) {
    const kv_spec *spec = &ask->specs->spec[i / each];
    const kv_budget *budget;
    if (kv_batch_asks(spec, ask->budgets, i % each, &budget))
      rc = weigh(p, t, prompt, spec, budget, trace, at++, e);
  }
  for (int i = p->out->first[trace]; blind && i < at; i++)
    p->out->runs[i] = false;
  kv_trace_close(t);
  return rc;
}

typedef struct place {
  const char *path;
  int trace;
} place;

static int by_path(const void *a, const void *b) {
  const place *x = a, *y = b;
  int c = strcmp(x->path, y->path);
  return c ? c : x->trace - y->trace;
}

/* The cut takes traces in the order of their paths, because the shells of two
 * machines may list them in different orders. */
static kv_rc rank(plan *p, const char *const *path, kv_err *e) {
  size_t n = (size_t)p->out->traces;
  place *list = kv_zalloc(n + 1, sizeof *list);
  if (!list) return kv_no_memory(e, "traces", n * sizeof *list);
  for (size_t i = 0; i < n; i++) list[i] = (place){path[i], (int)i};
  qsort(list, n, sizeof *list, by_path);
  for (size_t i = 0; i < n; i++) {
    p->order[i] = list[i].trace;
    p->rank[list[i].trace] = (int)i;
  }
  free(list);
  return KV_OK;
}

static kv_rc take(plan *p, int traces, int shards, kv_err *e) {
  int each = cells_of(p->ask);
  size_t n = (size_t)traces * (size_t)each + 1, m = (size_t)traces + 1;
  kv_shares *s = p->out;
  *s = (kv_shares){.shards = shards,
                   .traces = traces,
                   .cells = traces * each,
                   .first = kv_zalloc(m, sizeof *s->first),
                   .shard = kv_zalloc(n, sizeof *s->shard),
                   .own = kv_zalloc(n, sizeof *s->own),
                   .runs = kv_zalloc(n, sizeof *s->runs),
                   .can = kv_zalloc((size_t)shards, sizeof *s->can),
                   .cost = kv_zalloc((size_t)shards, sizeof *s->cost)};
  p->cell = kv_zalloc(n, sizeof *p->cell);
  p->shared = kv_zalloc(m, sizeof *p->shared);
  p->order = kv_zalloc(m, sizeof *p->order);
  p->rank = kv_zalloc(m, sizeof *p->rank);
  if (!s->first || !s->shard || !s->own || !s->runs || !s->can || !s->cost ||
      !p->cell || !p->shared || !p->order || !p->rank)
    return kv_no_memory(e, "shards", n * sizeof *p->cell);
  for (int i = 0; i <= traces; i++) s->first[i] = i * each;
  return KV_OK;
}

/* --- results ------------------------------------------------------------ */

/* The whole sweep in one process is a cut into one shard. */
static kv_rc weigh_all(const plan *p, kv_err *e) {
  kv_shares *s = p->out;
  return kv_cut(s->cells, p->cell, s->traces, p->shared, 1, s->shard, &s->alone,
                e);
}

/* Names the cut: a hash of what each cell costs and where it is, with traces in
 * the order of their paths. */
static void name(const plan *p) {
  kv_shares *s = p->out;
  kv_sha256 h;
  char line[96], hex[65];
  kv_sha256_init(&h);
  for (int at = 0; at < s->traces; at++) {
    int first = s->first[p->order[at]], end = s->first[p->order[at] + 1];
    for (int i = first; i < end; i++) {
      int n = snprintf(line, sizeof line, "%d %d %d %" PRId64 "\n", at,
                       i - first, s->shard[i], s->own[i]);
      kv_sha256_add(&h, line, (size_t)n);
    }
  }
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, hex);
  memcpy(s->name, hex, sizeof s->name - 1);
}

static kv_rc deal(const plan *p, kv_err *e) {
  kv_shares *s = p->out;
  kv_rc rc = weigh_all(p, e);
  if (!rc)
    rc = kv_cut(s->cells, p->cell, s->traces, p->shared, s->shards, s->shard,
                s->cost, e);
  for (int i = 0; !rc && i < s->cells; i++) {
    s->own[i] = p->cell[i].own;
    s->can[s->shard[i]] += s->runs[i];
    s->shard[i]++;
  }
  if (!rc) name(p);
  return rc;
}

kv_rc kv_shares_open(const kv_batch_ask *ask, int traces,
                     const char *const *path, int shards, kv_shares *out,
                     kv_err *e) {
  plan p = {.ask = ask, .out = out};
  kv_err why = {0};
  kv_rc rc = take(&p, traces, shards, e);
  if (!rc) rc = rank(&p, path, e);
  for (int i = 0; !rc && i < traces; i++) {
    rc = weigh_trace(&p, path[i], i, &why);
    if (rc == KV_INPUT)
      kv_fail(e, rc, "%.400s; the run cannot be split into shards without it",
              why.text);
    else if (rc)
      kv_fail(e, rc, "%s", why.text);
  }
  if (!rc) rc = deal(&p, e);
  free(p.cell);
  free(p.shared);
  free(p.order);
  free(p.rank);
  return rc;
}
