/* SPDX-License-Identifier: Apache-2.0
 *
 * Searching for byte budgets by the measured ledger. Each probe replays the
 * method with one value of the knob, on the reference, only for its cost; if
 * only lengths decide what is stored (needs.lengths), without reading queries.
 * The batch remembers probes; a database stores the result and, until then, the
 * probes.
 */
#include "ref/ground/text.h"
#include "sim/ask/param.h"
#include "sim/ask/spec.h"
#include "sim/run/sweep/batch.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

typedef struct probe {
  const kv_batch_ask *ask;
  kv_batch *batch;
  const kv_spec *spec;
  const kv_budget *budget;
  const kv_param *knob;
  int tokens; /* the trace's: no more entries are tried */
  int prompt_len;
  int n, most;          /* probes so far; most probes */
  const kv_result *row; /* the search, as a row of a database */
} probe;

static void tell(const probe *p, int n) {
  const kv_batch_ask *a = p->ask;
  if (!a->probing) return;
  a->probing(a->how.self, p->spec->method->name, n, p->most,
             kv_replay_units(p->batch->trace, p->prompt_len));
}

/* Only lengths decide what is stored and, for bytes read, no view hook reads
 * less than the lane. */
bool kv_batch_blind(const kv_plan *plan, kv_basis basis) {
  bool reads = kv_basis_reads(basis);
  return plan->needs.lengths && (!reads || !plan->method->view);
}

/* Opens the cell with that value of the knob. */
static kv_rc open_at(const probe *p, int value, kv_cell *c, kv_err *e) {
  const kv_asked_cell asked = {.spec = p->spec,
                               .budget = p->budget,
                               .entries = value,
                               .observe = p->ask->observe};
  return kv_cell_open(p->batch->trace, p->prompt_len, p->ask->how.kernels,
                      &asked, c, e);
}

static kv_rc replay(probe *p, int value, int64_t *bytes, int64_t *dense,
                    kv_err *e) {
  kv_replay_how how = p->ask->how;
  kv_cell cell, *each = &cell;
  bool stopped = false;
  how.fidelity = false;
  how.scores = false;
  how.watch = NULL;
  how.keep = NULL;
  kv_rc rc = open_at(p, value, &cell, e);
  if (!rc && !cell.runs) rc = kv_fail(e, KV_REFUSED, "%s", cell.result.reason);
  bool blind = !rc && kv_batch_blind(&cell.plan, p->budget->basis);
  how.backend = blind ? &kv_backend_blind : &kv_backend_cost;
  if (!rc) rc = kv_replay(p->batch->trace, &each, 1, &how, &stopped, e);
  if (!rc && stopped) rc = kv_fail(e, KV_RESOURCE, "interrupted");
  if (!rc && !kv_result_ran(&cell.result))
    rc = kv_fail(e, KV_REFUSED, "%s", cell.result.reason);
  if (!rc) kv_cell_in_basis(&cell, p->budget->basis, bytes, dense);
  kv_cell_close(&cell);
  return rc;
}

/* Does the batch remember that probe? Then *said gets its bytes. */
static bool remembered(const probe *p, kv_db_probe *said) {
  const kv_batch *b = p->batch;
  for (int i = 0; i < b->n_probes; i++) {
    const kv_batch_probe *q = &b->probe[i];
    if (q->spec != p->spec || q->basis != p->budget->basis) continue;
    if (q->said.entries != said->entries) continue;
    *said = q->said;
    return true;
  }
  return false;
}

/* Without memory the probe is forgotten, and replayed if needed again. */
static void remember(probe *p, const kv_db_probe *said) {
  kv_batch *b = p->batch;
  size_t n = (size_t)b->n_probes;
  kv_batch_probe *more =
      n % 64 ? b->probe : realloc(b->probe, (n + 64) * sizeof *more);
  if (!more) return;
  b->probe = more;
  more[b->n_probes++] = (kv_batch_probe){p->spec, p->budget->basis, *said};
}

static kv_rc at(void *self, int place, int64_t *bytes, int64_t *dense,
                kv_err *e) {
  probe *p = self;
  kv_db *db = p->ask->record ? NULL : p->ask->db;
  int value = kv_knob_value(p->knob, p->tokens, place);
  kv_db_probe known = {.entries = value};
  bool found = remembered(p, &known), new = !found;
  tell(p, ++p->n);
  kv_rc rc = KV_OK;
  if (db && !found) rc = kv_db_find_probe(db, p->row, &known, &found, e);
  double start = omp_get_wtime();
  if (!rc && !found) rc = replay(p, value, &known.bytes, &known.dense, e);
  if (rc) return rc;
  *bytes = known.bytes;
  *dense = known.dense;
  if (new) remember(p, &known);
  bool worth = omp_get_wtime() - start >= p->ask->keep_every;
  return db && !found && worth ? kv_db_put_probe(db, p->row, &known, e) : KV_OK;
}

/* Only opens the cell with the knob at that place. */
static kv_rc legal(void *self, int place, bool *runs, kv_err *e) {
  const probe *p = self;
  kv_cell cell;
  kv_rc rc = open_at(p, kv_knob_value(p->knob, p->tokens, place), &cell, e);
  *runs = !rc && cell.runs;
  if (!rc && !*runs) kv_fail(e, KV_REFUSED, "%s", cell.result.reason);
  kv_cell_close(&cell);
  return rc;
}

/* Parameters with the knob null, by `text` of spec.h; NULL without memory. */
static char *params_of(const probe *p, char *text(const kv_spec *s)) {
  kv_spec open;
  if (kv_spec_copy(p->spec, &open, NULL)) return NULL;
  kv_param_unset(p->knob, open.params);
  char *out = text(&open);
  kv_spec_free(&open);
  return out;
}

/* The row that identifies a search: all but the knob. */
static kv_rc question(const probe *p, kv_result *r, kv_cell *c, kv_err *e) {
  kv_rc rc = open_at(p, kv_knob_value(p->knob, p->tokens, 1), c, e);
  if (rc) return rc;
  *r = c->result;
  r->params = params_of(p, kv_spec_json);
  r->has_identity = p->batch->has_identity;
  r->identity = p->batch->identity;
  if (r->params) return KV_OK;
  return kv_no_memory(e, "a search", sizeof *r);
}

/* The sentence has the knob with its smallest legal value. */
static kv_rc refuse(const probe *p, const kv_found_row *row, kv_err *e) {
  char named[KV_TEXT_MAX];
  kv_knob_text(p->knob, row->value, named);
  return kv_budget_refuse(p->budget, named, row->bytes, row->dense, e);
}

/* Looks in the file next to the trace. */
static kv_rc look_up(const probe *p, bool *found, int *value, kv_err *e) {
  char key[65];
  if (!p->batch->found.n || p->ask->record) return KV_OK;
  kv_db_budget_key(p->row, key);
  const kv_found_row *row = kv_found_of(&p->batch->found, key);
  if (!row) return KV_OK;
  *found = true;
  *value = row->value;
  return row->bytes < 0 ? KV_OK : refuse(p, row, e);
}

/* The specification with which to search again: the bare name if no parameter
 * was typed, because defaults may change. NULL without memory. */
static char *spec_of(const probe *p) {
  const kv_method *m = p->spec->method;
  bool typed = p->spec->windowed_given || p->spec->chunk_given;
  for (int i = 0; m->params[i].name; i++) typed |= p->spec->given[i];
  return typed ? params_of(p, kv_spec_text)
               : kv_text_copy(strlen(m->name), m->name);
}

/* Adds the result of a search to the caller's file: `value`, or that even the
 * smallest legal value does not fit. A search that failed has no result. */
static kv_rc record(const probe *p, kv_rc rc, int value, kv_err *e) {
  kv_db_probe said = {.entries = value};
  kv_found_row row = {.trace = (char *)p->ask->path,
                      .revision = p->spec->method->revision,
                      .target = (char *)p->budget->target,
                      .value = value,
                      .bytes = -1,
                      .dense = -1};
  char key[65];
  if (rc == KV_REFUSED) {
    if (!remembered(p, &said) ||
        kv_budget_fits(p->budget, said.bytes, said.dense))
      return KV_OK;
    row.bytes = said.bytes;
    row.dense = said.dense;
  }
  kv_db_budget_key(p->row, key);
  memcpy(row.key, key, sizeof row.key - 1);
  row.spec = spec_of(p);
  if (!row.spec) return kv_no_memory(e, "a search", sizeof row);
  kv_rc added =
      strchr(row.spec, ',') ? KV_OK : kv_found_add(p->ask->record, &row, e);
  free(row.spec);
  return added;
}

kv_rc kv_batch_search(const kv_batch_ask *ask, kv_batch *b, const kv_spec *spec,
                      const kv_budget *budget, int *value, kv_err *e) {
  kv_cell cell = {0};
  kv_result r = {0};
  probe p = {ask,
             b,
             spec,
             budget,
             .knob = kv_spec_knob(spec->method),
             .tokens = b->trace->shape.n_tokens,
             .prompt_len = b->prompt_len,
             .row = &r};
  int most = kv_knob_places(p.knob, p.tokens), least = 1, place;
  bool found = false;
  char named[KV_TEXT_MAX];
  bool asks = ask->db || ask->record || b->found.n;
  kv_rc rc = asks ? question(&p, &r, &cell, e) : KV_OK;
  if (!rc && ask->db && !ask->record)
    rc = kv_db_find_budget(ask->db, &r, &found, value, e);
  if (!rc && !found) rc = look_up(&p, &found, value, e);
  if (rc || (found && *value >= 0)) goto out;
  rc = kv_budget_least(most, legal, &p, &least, e);
  if (rc) goto out;
  p.most = kv_budget_probes(least, most);
  kv_knob_text(p.knob, kv_knob_value(p.knob, p.tokens, least), named);
  rc = kv_budget_search(budget, least, most, named, at, &p, &place, e);
  *value = kv_knob_value(p.knob, p.tokens, rc ? least : place);
  if (ask->record && (!rc || rc == KV_REFUSED)) {
    kv_rc kept = record(&p, rc, *value, e);
    if (kept) rc = kept;
  }
  if (rc) goto out;
  if (ask->db) rc = kv_db_put_budget(ask->db, &r, *value, e);
out:
  free(r.params);
  kv_cell_close(&cell);
  return rc;
}
