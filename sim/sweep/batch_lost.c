/* SPDX-License-Identifier: Apache-2.0
 *
 * The cells of a trace that is bad: all failed, for one reason
 * (sim/sweep/batch.h).
 */
#include "sim/sweep/batch.h"

#include "ref/ground/arith.h"
#include "sim/spec/door.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(kv_cell *c, const kv_err *why) {
  c->runs = false;
  c->result.status = KV_CELL_FAILED;
  snprintf(c->result.reason, sizeof c->result.reason, "%s", why->text);
}

void kv_batch_fail(kv_batch *b, const kv_err *why) {
  for (int i = 0; i < b->cells; i++)
    if (b->cell[i].runs) fail(&b->cell[i], why);
}

static kv_rc add(const kv_batch_ask *ask, const kv_spec *spec,
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
        rc = add(ask, spec, budget, b, e);
  }
  for (int i = 0; i < b->cells; i++) {
    b->each[i] = &b->cell[i];
    fail(&b->cell[i], why);
  }
  return rc;
}
