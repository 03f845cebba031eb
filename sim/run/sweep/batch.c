/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening all cells of a trace, or failing all cells of a bad one:
 * sim/run/sweep/batch.h.
 */
#include "sim/run/sweep/batch.h"

#include "ref/ground/arith.h"
#include "sim/ask/door.h"
#include "sim/ask/spec.h"
#include "traces/trace/trace.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kv_batch_close(kv_batch *b) {
  for (int i = 0; b->cell && i < b->cells; i++) kv_cell_close(&b->cell[i]);
  free(b->cell);
  free(b->each);
  free(b->probe);
  kv_found_free(&b->found);
  if (b->owns) kv_trace_close(b->trace);
  *b = (kv_batch){0};
}

static kv_rc take(kv_batch *b, int cells, kv_err *e) {
  b->cell = kv_zalloc((size_t)cells + 1, sizeof *b->cell);
  b->each = kv_zalloc((size_t)cells + 1, sizeof *b->each);
  if (!b->cell || !b->each)
    return kv_no_memory(e, "cells", (size_t)cells * sizeof *b->cell);
  for (int i = 0; i < cells; i++) b->each[i] = &b->cell[i];
  return KV_OK;
}

/* The smallest value of what the budget sets, for a cell that is refused. */
static int least_of(const kv_spec *spec) {
  return kv_knob_value(kv_spec_knob(spec->method), 1, 1);
}

bool kv_batch_asks(const kv_spec *spec, const kv_budgets *all, int j,
                   const kv_budget **b) {
  *b = j < all->n ? &all->budget[j] : NULL;
  if (kv_knob_takes(spec, *b)) return true;
  *b = NULL;
  for (int i = 0; i < j; i++)
    if (!kv_knob_takes(spec, &all->budget[i])) return false;
  return true;
}

/* Opens one cell. If no value of the knob meets a byte budget, it is refused.
 */
static kv_rc add(const kv_batch_ask *ask, kv_batch *b, const kv_spec *spec,
                 const kv_budget *budget, kv_err *e) {
  kv_asked_cell asked = {
      .spec = spec, .budget = budget, .entries = -1, .observe = ask->observe};
  kv_cell *c = &b->cell[b->cells];
  kv_err why = b->blind;
  kv_rc rc = KV_OK;
  int prompt = b->prompt_len;
  if (budget && kv_budget_in_bytes(budget))
    rc = why.rc ? why.rc
                : kv_batch_search(ask, b, spec, budget, &asked.entries, &why);
  else if (budget && !budget->layers) /* the cell itself resolves lists */
    rc = kv_budget_entries(budget, prompt, &asked.entries, &why);
  if (rc && rc != KV_REFUSED) return kv_fail(e, rc, "%s", why.text);
  if (rc) asked.entries = least_of(spec);
  b->cells++;
  kv_rc opened = kv_cell_open(b->trace, prompt, ask->how.kernels, &asked, c, e);
  if (!opened) opened = kv_cell_lay_out(c, ask->layouts, e);
  if (opened) return opened;
  size_t n = strlen(ask->path), most = sizeof c->result.path - 1;
  strcpy(c->result.path, ask->path + (n > most ? n - most : 0));
  c->result.has_identity = b->has_identity;
  c->result.identity = b->identity;
  c->result.backend = ask->how.backend->name;
  if (!why.rc) return KV_OK;
  c->runs = false;
  c->result.status = KV_CELL_REFUSED;
  c->result.budget = -1;
  snprintf(c->result.reason, sizeof c->result.reason, "%s", why.text);
  return KV_OK;
}

kv_rc kv_batch_prompt(const kv_batch_ask *ask, const kv_trace *t,
                      int *prompt_len, kv_err *e) {
  if (!ask->prompt_len)
    return kv_observe_prompt(t, ask->observe, prompt_len, e);
  *prompt_len = ask->prompt_len;
  if (ask->prompt_len > t->shape.n_tokens)
    return kv_fail(e, KV_USAGE, "--prompt-len %d: %s has %d tokens",
                   ask->prompt_len, t->path, t->shape.n_tokens);
  if (ask->prompt_len < t->first_decode)
    return kv_fail(e, KV_USAGE,
                   "--prompt-len %d: %s records every query row only from "
                   "token %d on",
                   ask->prompt_len, t->path, t->first_decode);
  return KV_OK;
}

static kv_rc open_cells(const kv_batch_ask *ask, kv_batch *b, kv_err *e) {
  int each = ask->budgets->n > 0 ? ask->budgets->n : 1;
  kv_rc rc = take(b, ask->specs->n * each, e);
  for (int i = 0, cell = 0; !rc && i < ask->specs->n * each; i++) {
    const kv_spec *spec = &ask->specs->spec[i / each];
    const kv_budget *budget;
    if (!kv_batch_asks(spec, ask->budgets, i % each, &budget)) continue;
    if (kv_batch_mine(ask, cell++)) rc = add(ask, b, spec, budget, e);
  }
  return rc;
}

static bool searches_for(const kv_budgets *all) {
  for (int i = 0; i < all->n; i++)
    if (kv_budget_in_bytes(&all->budget[i])) return true;
  return false;
}

kv_rc kv_batch_open(const kv_batch_ask *ask, kv_batch *b, kv_err *e) {
  *b = (kv_batch){0};
  kv_rc rc = kv_trace_open(ask->path, &b->trace, e);
  if (rc) return rc;
  b->owns = true;
  kv_err why = {0};
  rc = kv_batch_prompt(ask, b->trace, &b->prompt_len, &why);
  if (rc == KV_REFUSED) b->blind = why;
  if (rc && rc != KV_REFUSED) return kv_fail(e, rc, "%s", why.text);
  rc = KV_OK;
  bool searches = searches_for(ask->budgets);
  if (searches && !ask->record) rc = kv_found_beside(ask->path, &b->found, e);
  if (rc) return rc;
  if (ask->db || ask->identify || ask->record || b->found.n) {
    rc = kv_trace_identity(b->trace, &b->identity, e);
    b->has_identity = !rc;
    if (!rc && ask->db) rc = kv_trace_request(b->trace, &b->request, e);
  }
  return rc ? rc : open_cells(ask, b, e);
}

kv_rc kv_batch_again(const kv_batch *from, const kv_kernels *kernels, kv_db *db,
                     kv_batch *b, kv_err *e) {
  *b = (kv_batch){.trace = from->trace,
                  .prompt_len = from->prompt_len,
                  .has_identity = from->has_identity,
                  .identity = from->identity,
                  .request = from->request};
  kv_rc rc = take(b, from->cells, e);
  for (int i = 0; !rc && i < from->cells; i++) {
    const kv_cell *c = &from->cell[i];
    kv_asked_cell asked = {
        .spec = &c->spec, .entries = -1, .observe = c->result.observe};
    b->cells++;
    rc = kv_cell_open(from->trace, c->shape.prompt_len, kernels, &asked,
                      &b->cell[i], e);
    if (!rc && kv_result_ran(&c->result) && !kv_result_ran(&b->cell[i].result))
      rc = kv_fail(e, KV_INTERNAL,
                   "%s: what it ran with is refused when given by name: %s",
                   c->result.spec, b->cell[i].result.reason);
    if (!rc) rc = kv_cell_lay_out(&b->cell[i], c->lay_out, e);
    kv_result *r = &b->cell[i].result;
    r->has_identity = b->has_identity;
    r->identity = b->identity;
    kv_cell_answer(&b->cell[i], &c->result);
    bool known = !c->runs;
    if (!rc && db && kv_result_ran(&c->result))
      rc = kv_db_confirmed(db, &c->result, kernels->name, &known, e);
    b->cell[i].runs = !known && kv_result_ran(&c->result);
  }
  return rc;
}

kv_rc kv_batch_recall(kv_batch *b, kv_db *db, kv_err *e) {
  for (int i = 0; i < b->cells; i++) {
    kv_cell *c = &b->cell[i];
    bool found = false;
    bool has_tokens = true;
    if (!c->runs) continue;
    kv_rc rc = KV_OK;
    if (b->tokens) rc = kv_db_has_survivals(db, &c->result, &has_tokens, e);
    if (!rc && !has_tokens) continue; /* runs for its tokens, to be confirmed */
    if (!rc) rc = kv_db_find_layouts(db, &c->result, &found, e);
    if (!rc && !found) continue; /* runs for its layouts, to be confirmed */
    if (!rc) rc = kv_db_find(db, &c->result, &found, e);
    if (rc) return rc;
    if (!found) continue;
    c->runs = false;
    if (!kv_result_ran(&c->result) || c->result.achieved == c->result.achieved)
      continue;
    c->result.achieved = kv_cell_achieved(c);
    rc = kv_db_ask(db, &c->result, e);
    if (rc) return rc;
  }
  return KV_OK;
}

static void fail(kv_cell *c, const kv_err *why) {
  c->runs = false;
  c->result.status = KV_CELL_FAILED;
  snprintf(c->result.reason, sizeof c->result.reason, "%s", why->text);
}

void kv_batch_fail(kv_batch *b, const kv_err *why) {
  for (int i = 0; i < b->cells; i++)
    if (b->cell[i].runs) fail(&b->cell[i], why);
}

static kv_rc lost_add(const kv_batch_ask *ask, const kv_spec *spec,
                      const kv_budget *budget, kv_batch *b, kv_err *e) {
  kv_cell *c = &b->cell[b->cells++];
  kv_result *r = &c->result;
  const char *code = kv_door_code(spec->method);
  kv_rc rc = kv_spec_copy(spec, &c->spec, e);
  if (rc) return rc;
  char *name = kv_trace_stem(ask->path);
  snprintf(r->trace, sizeof r->trace, "%s", name ? name : ask->path);
  free(name);
  size_t n = strlen(ask->path), most = sizeof r->path - 1;
  strcpy(r->path, ask->path + (n > most ? n - most : 0));
  r->method = spec->method->name;
  r->revision = spec->method->revision;
  r->arithmetic = KV_ARITHMETIC;
  r->backend = ask->how.backend->name;
  r->budget = -1;
  r->achieved = NAN;
  r->code = code ? strdup(code) : NULL;
  r->params = kv_spec_json(spec);
  r->spec = kv_spec_text(spec);
  if (budget) {
    r->basis = budget->basis;
    memcpy(r->target, budget->target, sizeof r->target);
  }
  if (!r->params || !r->spec || (code && !r->code))
    return kv_no_memory(e, "a row", sizeof *r);
  return kv_cell_lay_out(c, ask->layouts, e);
}

kv_rc kv_batch_lost(const kv_batch_ask *ask, const kv_err *why, kv_batch *b,
                    kv_err *e) {
  *b = (kv_batch){0};
  int each = ask->budgets->n > 0 ? ask->budgets->n : 1;
  size_t most = (size_t)(ask->specs->n * each) + 1;
  b->cell = kv_zalloc(most, sizeof *b->cell);
  b->each = kv_zalloc(most, sizeof *b->each);
  if (!b->cell || !b->each)
    return kv_no_memory(e, "cells", most * sizeof *b->cell);
  kv_rc rc = KV_OK;
  for (int i = 0, cell = 0; !rc && i < ask->specs->n; i++) {
    const kv_spec *spec = &ask->specs->spec[i];
    const kv_budget *budget;
    for (int j = 0; !rc && j < each; j++)
      if (kv_batch_asks(spec, ask->budgets, j, &budget) &&
          kv_batch_mine(ask, cell++))
        rc = lost_add(ask, spec, budget, b, e);
  }
  for (int i = 0; i < b->cells; i++) {
    b->each[i] = &b->cell[i];
    fail(&b->cell[i], why);
  }
  return rc;
}
