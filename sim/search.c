/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets in bytes: the measured ledger decides. Each probe replays the
 * method at one B for its cost alone, without a look at queries where lengths
 * decide what is stored; a database remembers the answer.
 */
#include "sim/batch.h"

#include <stdlib.h>
#include <string.h>

typedef struct probe {
  const kv_batch_ask *ask;
  const kv_batch *batch;
  const kv_spec *spec;
  const kv_budget *budget;
  int prompt_len;
  int n, most; /* probes so far, and at most */
} probe;

/* Bytes in the basis, and what dense would have; sums serve as means. */
static void in_basis(const kv_cell *c, kv_basis basis, int64_t *bytes,
                     int64_t *dense) {
  const kv_result *r = &c->result;
  const kv_shape *s = &c->shape;
  int64_t row = (int64_t)(s->d + s->d_v) * (int64_t)kv_dtype_size(s->dtype) *
                s->n_kv_heads * c->trace->n_layers;
  int64_t p = s->prompt_len, t = s->n_tokens, steps = t - p + 1;
  *dense = row * t;
  switch (basis) {
  case KV_BASIS_MEAN:
    *bytes = r->totals.mti;
    *dense = row * (p + t) * steps / 2;
    return;
  case KV_BASIS_PEAK:
    *bytes = r->totals.peak;
    return;
  case KV_BASIS_READ:
    *bytes = 0;
    for (int i = 1; i < r->n_steps; i++) *bytes += r->step[i].read;
    *dense = row * (p + 1 + t) * (t - p) / 2;
    return;
  default:
    *bytes = kv_bytes_total(&r->totals.end);
    return;
  }
}

static void tell(const probe *p, int n) {
  const kv_batch_ask *a = p->ask;
  if (!a->probing) return;
  a->probing(a->how.self, p->spec->method->name, n, p->most,
             kv_replay_units(p->batch->trace, p->prompt_len));
}

/* What is read at a step is the whole lane only where no hook says less. */
static bool by_lengths(const kv_plan *plan, kv_basis basis) {
  return plan->needs.lengths && (basis != KV_BASIS_READ || !plan->method->view);
}

static kv_rc at(void *self, int entries, int64_t *bytes, int64_t *dense,
                kv_err *e) {
  probe *p = self;
  kv_asked_cell asked = {p->spec, p->budget, entries};
  kv_replay_how how = p->ask->how;
  kv_cell cell, *each = &cell;
  bool stopped = false;
  how.fidelity = false;
  how.watch = NULL;
  tell(p, ++p->n);
  kv_rc rc = kv_cell_open(p->batch->trace, p->prompt_len, how.kernels, &asked,
                          &cell, e);
  if (!rc && !cell.runs) rc = kv_fail(e, KV_REFUSED, "%s", cell.result.reason);
  if (by_lengths(&cell.plan, p->budget->basis)) how.backend = &kv_backend_blind;
  if (!rc) rc = kv_replay(p->batch->trace, &each, 1, &how, &stopped, e);
  if (!rc && stopped) rc = kv_fail(e, KV_RESOURCE, "interrupted");
  if (!rc && !kv_result_ran(&cell.result))
    rc = kv_fail(e, KV_REFUSED, "%s", cell.result.reason);
  if (!rc) in_basis(&cell, p->budget->basis, bytes, dense);
  kv_cell_close(&cell);
  return rc;
}

/* The least B whose cell is not refused, by asking open alone. */
static kv_rc least_legal(const probe *p, int *least, kv_err *e) {
  kv_err why = {0};
  for (int b = 1; b <= p->batch->trace->shape.n_tokens; b++) {
    kv_asked_cell asked = {p->spec, p->budget, b};
    kv_cell cell;
    kv_rc rc = kv_cell_open(p->batch->trace, p->prompt_len, p->ask->how.kernels,
                            &asked, &cell, &why);
    bool runs = cell.runs;
    if (!rc && !runs) kv_fail(&why, KV_REFUSED, "%s", cell.result.reason);
    kv_cell_close(&cell);
    *least = b;
    if (rc) return kv_fail(e, rc, "%s", why.text);
    if (runs) return KV_OK;
  }
  return kv_fail(e, KV_REFUSED, "%s", why.text);
}

/* The row under which a search is remembered: all but the budget. */
static kv_rc question(const probe *p, kv_result *r, kv_cell *c, kv_err *e) {
  kv_asked_cell asked = {p->spec, p->budget, 1};
  kv_rc rc = kv_cell_open(p->batch->trace, p->prompt_len, p->ask->how.kernels,
                          &asked, c, e);
  if (rc) return rc;
  *r = c->result;
  r->params = kv_spec_json(p->spec); /* before open: budget null */
  r->has_identity = p->batch->has_identity;
  r->identity = p->batch->identity;
  if (r->params) return KV_OK;
  return kv_no_memory(e, "a search", sizeof *r);
}

kv_rc kv_batch_search(const kv_batch_ask *ask, const kv_batch *b,
                      const kv_spec *spec, const kv_budget *budget,
                      int *entries, kv_err *e) {
  int prompt = ask->prompt_len ? ask->prompt_len : b->trace->shape.prompt_len;
  int most = b->trace->shape.n_tokens;
  probe p = {ask, b, spec, budget, .prompt_len = prompt};
  kv_cell cell = {0};
  kv_result r = {0};
  bool found = false;
  int least = 1;
  kv_rc rc = ask->db ? question(&p, &r, &cell, e) : KV_OK;
  if (!rc && ask->db) rc = kv_db_find_budget(ask->db, &r, &found, entries, e);
  if (rc || (found && *entries > 0)) goto out;
  rc = least_legal(&p, &least, e);
  p.most = kv_budget_probes(least, most);
  if (!rc) rc = kv_budget_search(budget, least, most, at, &p, entries, e);
  /* The answer is of no backend, so only the reference may give it. */
  if (!rc && ask->db && !strcmp(ask->how.backend->name, kv_backend_ref.name))
    rc = kv_db_put_budget(ask->db, &r, *entries, e);
out:
  free(r.params);
  kv_cell_close(&cell);
  return rc;
}
