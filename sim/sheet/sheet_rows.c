/* SPDX-License-Identifier: Apache-2.0
 *
 * What rows of a database say in place of the synthetic trace: sheet.h.
 */
#include "sim/sheet/sheet.h"

#include "ref/lane/method.h"
#include "sim/db/db.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums over the rows of one method, and how many rows each is of. */
typedef struct sums {
  double scanned, ragged, freed, peak;
  int rows, laid_out; /* with vacated bytes in pages, of these */
} sums;

static bool matches(const kv_spec *asked, const kv_result *r) {
  kv_spec row = {0};
  if (!kv_result_ran(r) || r->n_steps < 2) return false;
  if (strcmp(r->method, asked->method->name) != 0) return false;
  if (r->revision != asked->method->revision) return false;
  bool same = !kv_spec_parse(kv_method_at, r->spec, &row, NULL) &&
              kv_spec_has(&row, asked);
  kv_spec_free(&row);
  return same;
}

static void add(const kv_result *r, sums *x) {
  const kv_totals *t = &r->totals;
  double token = kv_result_dense(r), seen = 0;
  for (int i = 1; i < r->n_steps; i++) seen += (double)r->step[i].step;
  seen /= r->n_steps - 1;
  x->rows++;
  x->scanned += 100 * t->scanned / (token * seen);
  x->ragged += t->kept_max / t->kept;
  x->peak += 100 * (double)t->peak / (token * r->n_tokens);
  if (!r->n_layouts || r->layout->vacated <= 0) return;
  x->laid_out++;
  x->freed += 100 * (double)r->layout->freed / (double)r->layout->vacated;
}

/* Adds its numbers in pages, where the row has that layout. */
static kv_rc lay_out(kv_db *db, kv_result *r, kv_err *e) {
  bool all = false;
  r->layout = kv_zalloc(1, sizeof *r->layout);
  if (!r->layout) return kv_no_memory(e, "a sheet", sizeof *r->layout);
  snprintf(r->layout->name, sizeof r->layout->name, KV_SHEET_PAGES);
  r->n_layouts = 1;
  kv_rc rc = kv_db_find_layouts(db, r, &all, e);
  r->n_layouts = all;
  return rc;
}

static void take(const sums *x, kv_sheet *s) {
  s->rows = x->rows;
  if (!x->rows) return;
  s->scanned = x->scanned / x->rows;
  s->ragged = x->ragged / x->rows;
  s->peak = x->peak / x->rows;
  if (x->laid_out) s->freed = x->freed / x->laid_out;
}

kv_rc kv_sheet_measure(const char *path, const kv_specs *specs,
                       bool (*stop)(void), kv_sheets *out, kv_err *e) {
  kv_db *db = NULL;
  char key[65] = "";
  bool more = true;
  const kv_db_wait wait = {.stop = stop};
  sums *x = kv_zalloc((size_t)out->n + 1, sizeof *x);
  kv_rc rc = x ? kv_db_open_found(path, &wait, &db, e)
               : kv_no_memory(e, "a sheet", (size_t)out->n * sizeof *x);
  while (!rc && more) {
    kv_result r = {0};
    rc = kv_db_next(db, key, &r, &more, e);
    if (!rc && more) rc = lay_out(db, &r, e);
    for (int i = 0; !rc && more && i < out->n; i++)
      if (matches(&specs->spec[i], &r)) add(&r, &x[i]);
    kv_result_free(&r);
  }
  kv_db_close(db);
  for (int i = 0; !rc && i < out->n; i++) take(&x[i], &out->of[i]);
  free(x);
  return rc;
}
