/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/database/survivors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct numbers {
  const unsigned char *at;
  int n;
} numbers;

static numbers of(sqlite3_value *v) {
  const unsigned char *at = sqlite3_value_blob(v);
  return (numbers){at, at ? sqlite3_value_bytes(v) / 4 : 0};
}

static int32_t number(const numbers *x, int i) {
  const unsigned char *p = x->at + 4 * i;
  return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                   (uint32_t)p[3] << 24);
}

static bool is_stored(const numbers *gone, int token, int step) {
  int32_t left = number(gone, token);
  return token < step && (left == 0 || left > step);
}

/* The existing part of from..to-1. */
static void range(const numbers *x, sqlite3_value *from, sqlite3_value *to,
                  int *first, int *last) {
  *first = sqlite3_value_int(from);
  *last = sqlite3_value_int(to);
  if (*first < 0) *first = 0;
  if (*last > x->n) *last = x->n;
}

static void stored(sqlite3_context *c, int n, sqlite3_value **v) {
  (void)n;
  numbers gone = of(v[0]);
  int first, last, step = sqlite3_value_int(v[3]), entered = 0, there = 0;
  range(&gone, v[1], v[2], &first, &last);
  for (int t = first; t < last && t < step; t++) {
    entered++;
    there += is_stored(&gone, t, step);
  }
  if (entered) sqlite3_result_double(c, (double)there / entered);
}

static void shown_share(sqlite3_context *c, int n, sqlite3_value **v) {
  (void)n;
  numbers shown = of(v[0]);
  int first, last, prompt = sqlite3_value_int(v[3]), count = 0;
  double sum = 0;
  range(&shown, v[1], v[2], &first, &last);
  for (int t = first; t < last; t++) {
    int steps = shown.n - (t < prompt ? prompt : t);
    if (steps < 1) continue;
    sum += (double)number(&shown, t) / steps;
    count++;
  }
  if (count) sqlite3_result_double(c, sum / count);
}

static void overlap_of(sqlite3_context *c, int n, sqlite3_value **v) {
  (void)n;
  numbers a = of(v[0]), b = of(v[1]);
  int step = sqlite3_value_int(v[2]), both = 0, either = 0;
  for (int t = 0; t < a.n && t < b.n; t++) {
    bool x = is_stored(&a, t, step), y = is_stored(&b, t, step);
    both += x && y;
    either += x || y;
  }
  if (either) sqlite3_result_double(c, (double)both / either);
}

int kv_survivors_functions(sqlite3 *db) {
  const int how = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  static const struct {
    const char *name;
    int n;
    void (*f)(sqlite3_context *, int, sqlite3_value **);
  } list[] = {{"stored", 4, stored},
              {"shown_share", 4, shown_share},
              {"overlap_of", 3, overlap_of}};
  int bad = SQLITE_OK;
  for (int i = 0; i < 3 && !bad; i++)
    bad = sqlite3_create_function_v2(db, list[i].name, list[i].n, how, NULL,
                                     list[i].f, NULL, NULL, NULL);
  return bad;
}
