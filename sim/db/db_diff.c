/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where two results under one key first differ. Layers come first, in the
 * order in which data flows through them: the first unequal one is where to
 * look.
 */
#include "sim/db/db_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool same(const kv_digest *a, const kv_digest *b) {
  return !memcmp(a, b, sizeof *a);
}

/* Describes two digests; 16 hex digits of each are enough to see where they
 * differ. */
static void tell(const char *what, const kv_digest *a, const kv_digest *b,
                 char where[KV_DB_WHERE]) {
  char x[65], y[65];
  kv_digest_hex(a, x);
  kv_digest_hex(b, y);
  int digits = strncmp(x, y, 16) ? 16 : 64;
  snprintf(where, KV_DB_WHERE, "%s is %.*s before and %.*s now", what, digits,
           x, digits, y);
}

/* Journal, state and output; and scores, if both have them. */
enum { THREE = 3, ALL };

static bool compare_digests(const char *suffix, int n,
                            const kv_digest *const a[ALL],
                            const kv_digest *const b[ALL],
                            char where[KV_DB_WHERE]) {
  static const char *const name[ALL] = {"journal", "state", "output",
                                        "score digest"};
  for (int i = 0; i < n; i++)
    if (!same(a[i], b[i])) {
      char what[64];
      snprintf(what, sizeof what, "the %s%s", name[i], suffix);
      tell(what, a[i], b[i], where);
      return true;
    }
  return false;
}

static int digests_of(const kv_result *a, const kv_result *b) {
  return a->has_scores && b->has_scores ? ALL : THREE;
}

static bool compare_layers(const kv_result *a, const kv_result *b, int *layer,
                           char where[KV_DB_WHERE]) {
  for (int i = 0; i < a->n_layers && i < b->n_layers; i++) {
    const kv_layer_result *x = a->layer + i, *y = b->layer + i;
    const kv_digest *dx[] = {&x->journal, &x->state, &x->output, &x->scores};
    const kv_digest *dy[] = {&y->journal, &y->state, &y->output, &y->scores};
    char suffix[32];
    snprintf(suffix, sizeof suffix, " of layer %d", x->layer);
    if (compare_digests(suffix, digests_of(a, b), dx, dy, where)) {
      *layer = x->layer;
      return true;
    }
  }
  return false;
}

static bool compare_number(const char *what, double a, double b,
                           char where[KV_DB_WHERE]) {
  if (kv_db_bits(a) == kv_db_bits(b)) return false;
  snprintf(where, KV_DB_WHERE,
           "digests agree, but %s is %.17g before and %.17g now", what, a, b);
  return true;
}

static bool compare_measures(const kv_result *a, const kv_result *b,
                             char where[KV_DB_WHERE]) {
  for (int m = 0; m < KV_MEASURES; m++)
    if (compare_number(kv_measure_table[m].name, a->stat[m].mean,
                       b->stat[m].mean, where))
      return true;
  return false;
}

static double drift_of(const kv_result *r, int part) {
  return part ? r->part[part - 1].drift : r->drift;
}

/* Numbers of the run, by name; and what the digest of all values does not
 * count. */
static bool compare_beside(const kv_result *a, const kv_result *b,
                           char where[KV_DB_WHERE]) {
  for (int i = 0; i < kv_n_scalars; i++) {
    const kv_scalar *s = &kv_scalars[i];
    double x = kv_scalar_get(&a->totals, s), y = kv_scalar_get(&b->totals, s);
    if (!isnan(x) && !isnan(y) && compare_number(s->name, x, y, where))
      return true;
  }
  for (int i = 0; i < a->n_steps && i < b->n_steps; i++)
    if (compare_number("bytes scanned at a step", (double)a->step[i].scanned,
                       (double)b->step[i].scanned, where))
      return true;
  for (int i = 0; i <= a->n_parts && i <= b->n_parts; i++) {
    char what[40];
    snprintf(what, sizeof what, "the drift of part %d", i);
    if (compare_number(what, drift_of(a, i), drift_of(b, i), where))
      return true;
  }
  kv_db_compare_moments(a, b, where);
  return *where;
}

void kv_db_compare(const kv_result *before, const kv_result *now, bool values,
                   int *layer, char where[KV_DB_WHERE]) {
  const kv_digest *a[] = {&before->journal, &before->state, &before->output,
                          &before->scores};
  const kv_digest *b[] = {&now->journal, &now->state, &now->output,
                          &now->scores};
  char x[65], y[65];
  *layer = -1;
  *where = 0;
  if (kv_result_ran(before) != kv_result_ran(now) ||
      (!kv_result_ran(now) && before->status != now->status)) {
    snprintf(where, KV_DB_WHERE, "it was %s before and is %s now",
             kv_status_names[before->status], kv_status_names[now->status]);
    return;
  }
  if (!kv_result_ran(now)) return;
  if (compare_layers(before, now, layer, where)) return;
  if (compare_digests("", digests_of(before, now), a, b, where) || !values)
    return;
  if (compare_beside(before, now, where)) return;
  kv_db_value(before, x);
  kv_db_value(now, y);
  if (!strcmp(x, y) || compare_measures(before, now, where)) return;
  snprintf(where, KV_DB_WHERE,
           "digests agree, but the values of layers, heads or steps differ "
           "(%.16s before, %.16s now)",
           x, y);
}
