/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/capacity/measured.h"

#include "ref/lane/method.h"
#include "sim/ask/param.h"
#include "sim/ask/spec.h"
#include "sim/store/db.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- which rows ----------------------------------------------------------- */

/* A number of entries is no share: it applies to prompts of similar length. */
static bool as_long(const kv_lengths *ask, const kv_result *r) {
  double ratio = (double)r->prompt_len / ask->context;
  return ratio >= 0.9 && ratio <= 1.1;
}

static bool same_budget(const kv_lengths *ask, const kv_result *r) {
  const kv_budget *b = ask->budget;
  bool typed =
      kv_spec_budget(ask->spec->method) && !kv_spec_wants_budget(ask->spec);
  int entries;
  if ((typed || (b && b->basis == KV_BASIS_ENTRIES)) && !as_long(ask, r))
    return false;
  if (!b || !kv_knob_takes(ask->spec, b)) return true;
  if (strcmp(b->target, r->target) == 0) return true;
  if (b->layers || kv_budget_in_bytes(b)) return false;
  return !kv_budget_entries(b, r->prompt_len, &entries, NULL) &&
         entries == r->budget;
}

static bool matches(const kv_lengths *ask, const kv_result *r) {
  kv_spec row = {0};
  if (!kv_result_ran(r) || r->n_steps < 2) return false;
  if (strcmp(r->method, ask->spec->method->name) != 0) return false;
  if (!same_budget(ask, r)) return false;
  bool same = !kv_spec_parse(kv_method_at, r->spec, &row, NULL) &&
              kv_spec_has(&row, ask->spec);
  kv_spec_free(&row);
  return same;
}

/* --- the estimate from a row -------------------------------------------- */

static int layers_of(const kv_result *r) {
  return r->n_layers > 0 ? r->n_layers : 1;
}

static kv_held take(const kv_lengths *ask, const kv_result *r, double token,
                    bool codes) {
  const kv_served *m = ask->model;
  double shares = 0, layer = token * r->prompt_len / layers_of(r);
  for (int i = 0; i < r->n_steps; i++) {
    int64_t x = codes ? r->step[i].codes : r->step[i].bytes;
    shares += (double)x / (token * r->step[i].step) / r->n_steps;
  }
  double end = (double)kv_served_dense(m, ask->context + ask->output);
  double dense = (double)kv_served_dense(m, ask->context);
  int64_t first = codes ? r->step[0].codes : r->step[0].bytes;
  int64_t most = codes ? r->totals.codes_peak : r->totals.peak;
  double more = (double)(most - first) / layer;
  double peak = (double)first / (token * r->step[0].step) * dense +
                (more < 1 ? more : 1) * dense / m->n_layers;
  kv_held held = {(int64_t)ceil(shares * end), (int64_t)ceil(peak)};
  if (held.peak < held.steady) held.peak = held.steady;
  return held;
}

/* Divides the entries of the row's KV heads at the end among ranks. */
static void take_ranks(const kv_lengths *ask, const kv_result *r,
                       kv_stored *out) {
  int heads = 0, ranks = ask->tp;
  out->fullest = out->of = 0;
  for (int i = 0; i < r->n_parts; i++)
    if (r->part[i].head >= heads) heads = r->part[i].head + 1;
  while (ranks > 1 && heads % ranks) ranks--;
  for (int rank = 0; rank < ranks; rank++) {
    double sum = 0;
    for (int i = 0; i < r->n_parts; i++) {
      const kv_part *p = &r->part[i];
      if (p->head >= 0 && p->bin < 0 && p->head / (heads / ranks) == rank)
        sum += p->kept;
    }
    if ((int64_t)sum > out->fullest) out->fullest = (int64_t)sum;
    out->of += (int64_t)sum;
  }
  /* with fewer ranks than `tp`, each stands for tp / ranks equal ones */
  out->of *= ask->tp / ranks;
  if (out->of == 0)
    *out = (kv_stored){
        .all = out->all, .codes = out->codes, .fullest = 1, .of = ask->tp};
}

static void take_row(const kv_lengths *ask, const kv_result *r,
                     kv_stored *out) {
  const kv_served *m = ask->model;
  double token = kv_result_dense(r), seen = 0;
  int end = ask->context + ask->output;
  *out = (kv_stored){0};
  out->all = take(ask, r, token, false);
  out->codes = take(ask, r, token, true);
  take_ranks(ask, r, out);
  for (int i = 1; i < r->n_steps; i++) seen += (double)r->step[i].step;
  seen /= r->n_steps - 1;
  double dense = ((double)kv_served_dense(m, ask->context + 1) +
                  (double)kv_served_dense(m, end)) /
                 2;
  out->read = (r->totals.read + r->totals.scanned) / (token * seen) * dense;
  out->attended = r->totals.attended / seen * (ask->context + end + 1) / 2;
  snprintf(out->spec, sizeof out->spec, "%s", r->spec);
}

/* --- all rows ------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b) {
  const kv_stored *x = a, *y = b;
  return (x->all.steady > y->all.steady) - (x->all.steady < y->all.steady);
}

static kv_rc add(const kv_lengths *ask, const kv_result *r, int *n,
                 kv_stored **out, kv_err *e) {
  kv_stored *more = realloc(*out, ((size_t)*n + 1) * sizeof *more);
  if (!more) return kv_no_memory(e, "rows", (size_t)*n * sizeof *more);
  *out = more;
  take_row(ask, r, &more[(*n)++]);
  return KV_OK;
}

kv_rc kv_measured_read(const char *path, const kv_lengths *ask, int *n,
                       kv_stored **out, kv_err *e) {
  kv_db *db = NULL;
  char key[65] = "";
  bool more = true;
  *n = 0;
  *out = NULL;
  const kv_db_wait wait = {.stop = ask->stop};
  kv_rc rc = kv_db_open_found(path, &wait, &db, e);
  while (!rc && more) {
    kv_result r = {0};
    rc = kv_db_next(db, key, &r, &more, e);
    if (!rc && more && matches(ask, &r)) rc = add(ask, &r, n, out, e);
    kv_result_free(&r);
  }
  kv_db_close(db);
  if (!rc && *n) qsort(*out, (size_t)*n, sizeof **out, by_bytes);
  return rc;
}
