/* SPDX-License-Identifier: Apache-2.0
 *
 * Two results under one key: where do they part? Layers first, in the order
 * in which data flows through them: the first unequal one is where to look.
 */
#include "sim/db_private.h"

#include <stdio.h>
#include <string.h>

static bool same(const kv_digest *a, const kv_digest *b) {
  return !memcmp(a, b, sizeof *a);
}

/* 16 hex digits are enough to see by eye, where they differ. */
static void tell(const char *what, const kv_digest *a, const kv_digest *b,
                 char where[KV_DB_WHERE]) {
  char x[65], y[65];
  kv_digest_hex(a, x);
  kv_digest_hex(b, y);
  int digits = strncmp(x, y, 16) ? 16 : 64;
  snprintf(where, KV_DB_WHERE, "%s is %.*s before and %.*s now", what, digits,
           x, digits, y);
}

static bool compare_digests(const char *suffix, const kv_digest *const a[3],
                            const kv_digest *const b[3],
                            char where[KV_DB_WHERE]) {
  static const char *const name[3] = {"journal", "state", "output"};
  for (int i = 0; i < 3; i++)
    if (!same(a[i], b[i])) {
      char what[64];
      snprintf(what, sizeof what, "the %s%s", name[i], suffix);
      tell(what, a[i], b[i], where);
      return true;
    }
  return false;
}

static bool compare_layers(const kv_result *a, const kv_result *b, int *layer,
                           char where[KV_DB_WHERE]) {
  for (int i = 0; i < a->n_layers && i < b->n_layers; i++) {
    const kv_layer_result *x = a->layer + i, *y = b->layer + i;
    const kv_digest *dx[3] = {&x->journal, &x->state, &x->output};
    const kv_digest *dy[3] = {&y->journal, &y->state, &y->output};
    char suffix[32];
    snprintf(suffix, sizeof suffix, " of layer %d", x->layer);
    if (compare_digests(suffix, dx, dy, where)) {
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
  return compare_number("mean bytes", a->totals.mean, b->totals.mean, where) ||
         compare_number("bytes read", a->totals.read, b->totals.read, where);
}

void kv_db_compare(const kv_result *before, const kv_result *now, bool values,
                   int *layer, char where[KV_DB_WHERE]) {
  const kv_digest *a[3] = {&before->journal, &before->state, &before->output};
  const kv_digest *b[3] = {&now->journal, &now->state, &now->output};
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
  if (compare_digests("", a, b, where) || !values) return;
  kv_db_value(before, x);
  kv_db_value(now, y);
  if (!strcmp(x, y) || compare_measures(before, now, where)) return;
  snprintf(where, KV_DB_WHERE,
           "digests agree, but the values of layers, heads or steps differ "
           "(%.16s before, %.16s now)",
           x, y);
}
