/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/compare/closed.h"
#include "analysis/database/results.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int kv_closed_find(sqlite3 *db, kv_closed *out) {
  *out = (kv_closed){.a = {.sizes = 0}};
  int rc = kv_answer_find_right(db, &out->a);
  return rc ? rc
            : kv_grid_ask(db, "SELECT place, why FROM unmeasured", 0, NULL,
                          &out->left);
}

void kv_closed_free(kv_closed *c) {
  kv_answer_free(&c->a);
  kv_grid_free(&c->left);
}

enum { NAMED = 6 }; /* methods named before "and 2 more" */

/* "keydiff 15 % right [10, 17]", or of one task "kivi answers 31 [26, 34]". */
static void say_value(FILE *f, const kv_answer_size *z, const kv_answer_row *r,
                      bool first) {
  bool one = z->tasks == 1;
  double unit = one ? r->traces : 100;
  fprintf(f, "%s%s %.0f%s", r->method, one && first ? " answers" : "",
          unit * r->value,
          one     ? ""
          : first ? " % right"
                  : " %");
  if (one && r->traces < z->traces) fprintf(f, " of %d", r->traces);
  if (!isnan(r->low))
    fprintf(f, " [%.0f, %.0f]", unit * r->low, unit * r->high);
  if (r->place == KV_ANSWER_OWN && strcmp(r->method, "dense"))
    fprintf(f, " (%.3g %%)", 100 * r->share);
}

/* What to say of which rows. */
typedef enum which { EQUAL, OTHER, BETTER, UNSURE } which;

static bool is(const kv_answer_row *r, which w) {
  if (w == EQUAL) return r->place == KV_ANSWER_EQUAL;
  if (w == OTHER) return r->place == KV_ANSWER_OWN && !r->baseline && r->traces;
  return !isnan(r->p) && r->alike == (w == UNSURE);
}

/* Names these rows after a text, if there are any. Returns how many. */
static int say_rows(FILE *f, const kv_answer_size *z, which w,
                    const char *before) {
  int n = 0, all = 0;
  for (int i = 0; i < z->n; i++) all += is(&z->row[i], w);
  for (int i = 0; i < z->n; i++) {
    const kv_answer_row *r = &z->row[i];
    if (!is(r, w) || ++n > NAMED) continue;
    if (n == 1) fprintf(f, before, z->row[z->best < 0 ? 0 : z->best].method);
    if (n > 1) fputs(w >= BETTER && n == all ? " and " : ", ", f);
    if (w >= BETTER)
      fputs(r->method, f);
    else
      say_value(f, z, r, n == 1);
  }
  if (n > NAMED) fprintf(f, " and %d more", n - NAMED);
  return n;
}

static void say_size(FILE *f, const kv_closed *c, int i) {
  const kv_answer_size *z = &c->a.size[i];
  const char *with = z->tasks == 1 ? "with" : "With";
  if (z->tasks == 1) fprintf(f, "Of %d questions ", z->traces);
  if (z->entries)
    fprintf(f, "%s equal entries (-b %s): ", with, z->x.at);
  else
    fprintf(f, "%s %.4g %% of %s: ", with, 100 * z->share,
            z->reads ? "what dense reads" : "dense's KV memory");
  if (!say_rows(f, z, EQUAL, "")) fputs("no method", f);
  for (int k = 0; k < z->n; k++)
    if (!strcmp(z->row[k].method, "dense") && z->row[k].traces) {
      fputs("; ", f);
      say_value(f, z, &z->row[k], false);
    }
  fputs(".", f);
}

static void say_verdict(FILE *f, const kv_closed *c, int i) {
  const kv_answer_size *z = &c->a.size[i];
  if (z->best >= 0 && z->contexts < KV_PAIRS_LEAST)
    fprintf(f, " No verdict: %d of at least %d contexts.", z->contexts,
            KV_PAIRS_LEAST);
  if (say_rows(f, z, BETTER, " %s is better than ")) fputs(".", f);
  if (say_rows(f, z, UNSURE, " Too few to say that %s is better than ")) {
    if (isinf(z->detects))
      fprintf(f, ": %d contexts cannot tell %d comparisons apart.", z->contexts,
              c->a.tests);
    else
      fprintf(f, ": %d contexts detect differences of %.0f points.",
              z->contexts, ceil(100 * z->detects));
  }
  if (z->margin < KV_LEVEL)
    fprintf(f, " %s is less than %.0f points worse than dense.",
            z->row[z->best].method, 100 * KV_MARGIN);
}

static void say_others(FILE *f, const kv_answer_size *z) {
  if (say_rows(f, z, OTHER, " With other bytes: ")) fputs(".", f);
  for (int i = 0; i < z->n; i++) {
    const kv_answer_row *r = &z->row[i];
    const char *colon = strchr(z->x.at, ':');
    if (r->place != KV_ANSWER_NONE || isnan(r->share) || !colon) continue;
    fprintf(f, " %s needs %.1f %%: ask for %.*s:%.0f%%.", r->method,
            100 * r->share, (int)(colon - z->x.at), z->x.at,
            ceil(100 * r->share));
  }
}

static void say_units(FILE *f, const kv_answer_size *z) {
  if (z->tasks > 1)
    fprintf(f, " %d questions of %d tasks with equal weight.", z->traces,
            z->tasks);
  if (z->contexts < z->traces)
    fprintf(f, " They are about %d contexts.", z->contexts);
}

void kv_closed_say(const kv_closed *c, char out[KV_ANSWER_SAID]) {
  FILE *f = fmemopen(out, KV_ANSWER_SAID, "w");
  *out = 0;
  if (!f) return;
  for (int i = 0; i < c->a.sizes; i++) {
    const kv_answer_size *z = &c->a.size[i], *had = i ? z - 1 : NULL;
    if (had) fputs("\n", f);
    say_size(f, c, i);
    if (!had || had->traces != z->traces || had->contexts != z->contexts)
      say_units(f, z);
    say_verdict(f, c, i);
    say_others(f, z);
  }
  for (int r = 0; r < c->left.rows; r++)
    fprintf(f, "%s%s is %s.", r || c->a.sizes ? " " : "",
            kv_grid_text(&c->left, r, "place"),
            kv_grid_text(&c->left, r, "why"));
  fclose(f);
  out[KV_ANSWER_SAID - 1] = 0;
}

int kv_closed_put(sqlite3 *db, const kv_closed *c) {
  int rc = kv_answer_put(db, &c->a);
  if (!rc && sqlite3_exec(
                 db,
                 "CREATE TEMP VIEW closed_at AS SELECT basis, asked, reads,"
                 " size, rank, method, baseline, place, value AS exact, low,"
                 " high, traces AS questions, contexts, tasks, share, verdict,"
                 " coalesce(reason, '') AS reason FROM closed_all",
                 NULL, NULL, NULL))
    rc = kv_results_fail(db, "the database");
  return rc;
}
