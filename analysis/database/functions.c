/* SPDX-License-Identifier: Apache-2.0
 *
 * SQL functions that the views call and SQLite lacks:
 *   f32_at(blob, i)    the i-th number, from 0, of a row of step_mean
 *                      (little-endian binary32); null for a NaN, or none
 *   f32_sum(blob, n)   the sum of the first n that are no NaN; null for none
 *   needle_place(name, i)  of a trace with the name needle_DEPTH_of_LENGTH,
 *                      perhaps _ and more: depth (0) or length (1); else null
 *   standard_error(x)  sqrt(sum of (x - mean)^2 / (n - 1) / n) over the values
 *                      that are not null; null for fewer than KV_INTERVAL_LEAST
 *   about(x, e)        a mean and twice its standard error, for people; null if
 *                      x is, without the latter if e is
 *   share(x, e)        the same in percent
 *   proportion(x, low, high)  a share in percent and its interval, "25% [9,
 *                      53]"; the share alone if low is null
 *   right_interval(sum, n)  the 95 % interval of right answers, a row for each
 *                      context: how many are right, and of how many. "LOW
 *                      HIGH", or null without an interval (kv_paired_right)
 *   leaves(a, b)       how many characters of b precede the first word in which
 *                      it differs from a; null if they are equal, or one is
 *   sha256(x)          of a text, as hex digits
 *   file_name(x)       a text as part of a file's name, as in
 *                      lm-evaluation-harness (sanitize_model_name): "__" for
 *                      /, : and the like, here also for control characters; at
 *                      most 120 bytes
 */
#include "analysis/database/paired.h"
#include "analysis/database/results.h"
#include "analysis/database/survivors.h"
#include "ref/ground/sha256.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The i-th number, from 0, of a blob, which must have it. */
static float f32(const unsigned char *blob, sqlite3_int64 i) {
  uint32_t bits = 0;
  float x;
  for (int k = 0; k < 4; k++) bits |= (uint32_t)blob[4 * i + k] << 8 * k;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void f32_at(sqlite3_context *c, int n, sqlite3_value **v) {
  (void)n;
  const unsigned char *blob = sqlite3_value_blob(v[0]);
  sqlite3_int64 i = sqlite3_value_int64(v[1]);
  if (!blob || i < 0 || i >= sqlite3_value_bytes(v[0]) / 4) return;
  float x = f32(blob, i);
  if (isfinite(x)) sqlite3_result_double(c, (double)x);
}

static void f32_sum(sqlite3_context *c, int n, sqlite3_value **v) {
  (void)n;
  const unsigned char *blob = sqlite3_value_blob(v[0]);
  sqlite3_int64 first = sqlite3_value_int64(v[1]);
  double sum = 0;
  bool any = false;
  if (!blob || first > sqlite3_value_bytes(v[0]) / 4) return;
  for (sqlite3_int64 i = 0; i < first; i++) {
    float x = f32(blob, i);
    if (!isfinite(x)) continue;
    sum += (double)x;
    any = true;
  }
  if (any) sqlite3_result_double(c, sum);
}

/* The names that traces/examples/needles.py gives. */
static void needle_place(sqlite3_context *c, int n, sqlite3_value **v) {
  (void)n;
  const char *name = (const char *)sqlite3_value_text(v[0]);
  int place[2], end = 0;
  if (!name ||
      sscanf(name, "needle_%3d_of_%8d%n", &place[0], &place[1], &end) != 2)
    return;
  if (place[0] < 0 || place[0] > 100 || place[1] < 1) return;
  if (!name[end] || name[end] == '_')
    sqlite3_result_int(c, place[sqlite3_value_int(v[1]) == 1]);
}

/* Mean and squared deviations, value by value (Welford): each new value moves
 * both, and no large numbers are subtracted. */
typedef struct moments {
  sqlite3_int64 n;
  double mean, squares;
} moments;

static void add(sqlite3_context *c, int n, sqlite3_value **v) {
  (void)n;
  moments *m = sqlite3_aggregate_context(c, sizeof *m);
  if (!m || sqlite3_value_type(v[0]) == SQLITE_NULL) return;
  double x = sqlite3_value_double(v[0]), gap = x - m->mean;
  m->mean += gap / (double)++m->n;
  m->squares += gap * (x - m->mean);
}

static void finish_error(sqlite3_context *c) {
  const moments *m = sqlite3_aggregate_context(c, 0);
  if (!m || m->n < KV_INTERVAL_LEAST) return;
  double n = (double)m->n;
  sqlite3_result_double(c, sqrt(m->squares / (n - 1) / n));
}

/* x, then twice e, shown as 0 if it is below the shown digits of x. */
static void about(sqlite3_context *c, int n, sqlite3_value **v) {
  double x = sqlite3_value_double(v[0]), e = 2 * sqlite3_value_double(v[1]);
  char text[80];
  if (sqlite3_value_type(v[0]) == SQLITE_NULL) return;
  n = snprintf(text, sizeof text, "%.4g", x);
  if (e < 5e-5 * fabs(x)) e = 0;
  if (sqlite3_value_type(v[1]) != SQLITE_NULL)
    snprintf(text + n, sizeof text - (size_t)n,
             e < 100 ? " \u00b1%.2g" : " \u00b1%.0f", e);
  sqlite3_result_text(c, text, -1, SQLITE_TRANSIENT);
}

static void share(sqlite3_context *c, int n, sqlite3_value **v) {
  char text[80];
  if (sqlite3_value_type(v[0]) == SQLITE_NULL) return;
  n = snprintf(text, sizeof text, "%.0f%%", 100 * sqlite3_value_double(v[0]));
  if (sqlite3_value_type(v[1]) != SQLITE_NULL)
    snprintf(text + n, sizeof text - (size_t)n, " \u00b1%.0f",
             200 * sqlite3_value_double(v[1]));
  sqlite3_result_text(c, text, -1, SQLITE_TRANSIENT);
}

static void proportion(sqlite3_context *c, int n, sqlite3_value **v) {
  char text[80];
  if (sqlite3_value_type(v[0]) == SQLITE_NULL) return;
  n = snprintf(text, sizeof text, "%.0f%%", 100 * sqlite3_value_double(v[0]));
  if (sqlite3_value_type(v[1]) != SQLITE_NULL)
    snprintf(text + n, sizeof text - (size_t)n, " [%.0f, %.0f]",
             100 * sqlite3_value_double(v[1]),
             100 * sqlite3_value_double(v[2]));
  sqlite3_result_text(c, text, -1, SQLITE_TRANSIENT);
}

typedef struct contexts {
  int n, room;
  kv_cluster *c; /* [n] */
} contexts;

static void add_context(sqlite3_context *c, int n, sqlite3_value **v) {
  (void)n;
  contexts *s = sqlite3_aggregate_context(c, sizeof *s);
  if (!s) return;
  if (s->n == s->room) {
    int room = 2 * s->room + 64;
    kv_cluster *more = realloc(s->c, (size_t)room * sizeof *more);
    if (!more) {
      sqlite3_result_error_nomem(c);
      return;
    }
    s->c = more;
    s->room = room;
  }
  s->c[s->n++] = (kv_cluster){.n = sqlite3_value_int(v[1]),
                              .sum = sqlite3_value_double(v[0])};
}

static void finish_contexts(sqlite3_context *c) {
  contexts *s = sqlite3_aggregate_context(c, 0);
  kv_paired of;
  char text[64];
  if (!s) return;
  if (!kv_paired_right(s->n, s->c, &of)) {
    sqlite3_result_error_nomem(c);
  } else if (!isnan(of.low)) {
    snprintf(text, sizeof text, "%.17g %.17g", of.low, of.high);
    sqlite3_result_text(c, text, -1, SQLITE_TRANSIENT);
  }
  free(s->c);
}

/* Also true at the end of a text. */
static bool ends_word(char x) { return strchr(" \t\r\n", x); }

static void leaves(sqlite3_context *c, int n, sqlite3_value **v) {
  const char *a = (const char *)sqlite3_value_text(v[0]);
  const char *b = (const char *)sqlite3_value_text(v[1]);
  int at = 0, count = 0;
  if (!a || !b || !strcmp(a, b)) return;
  while (a[at] && a[at] == b[at]) at++;
  bool whole = ends_word(a[at]) && ends_word(b[at]);
  while (!whole && at && !ends_word(b[at - 1])) at--;
  for (n = 0; n < at; n++) count += (b[n] & 0xc0) != 0x80;
  sqlite3_result_int(c, count);
}

static void sha256(sqlite3_context *c, int n, sqlite3_value **v) {
  const unsigned char *text = sqlite3_value_text(v[0]);
  char hex[65];
  kv_sha256 h;
  (void)n;
  if (!text) return;
  kv_sha256_init(&h);
  kv_sha256_add(&h, text, (size_t)sqlite3_value_bytes(v[0]));
  const kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, hex);
  sqlite3_result_text(c, hex, -1, SQLITE_TRANSIENT);
}

static void file_name(sqlite3_context *c, int n, sqlite3_value **v) {
  const char *t = (const char *)sqlite3_value_text(v[0]);
  char name[128];
  bool replaced = false;
  if (!t) return;
  for (n = 0; *t && (n < 120 || (*t & 0xc0) == 0x80) && n < 124; t++) {
    bool bad = strchr("\"<>:/|\\?*[]\x7f", *t) || (unsigned char)*t < ' ';
    if (!bad) name[n++] = *t;
    if (bad && !replaced) memcpy((n += 2) + name - 2, "__", 2);
    replaced = bad;
  }
  sqlite3_result_text(c, name, n, SQLITE_TRANSIENT);
}

int kv_results_functions(sqlite3 *db) {
  static const struct {
    const char *name;
    int n;
    void (*call)(sqlite3_context *, int, sqlite3_value **);
  } all[] = {{"f32_at", 2, f32_at},         {"f32_sum", 2, f32_sum},
             {"about", 2, about},           {"share", 2, share},
             {"proportion", 3, proportion}, {"needle_place", 2, needle_place},
             {"leaves", 2, leaves},         {"sha256", 1, sha256},
             {"file_name", 1, file_name}};
  const int how = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
  int bad = kv_survivors_functions(db);
  for (size_t i = 0; i < sizeof all / sizeof *all && !bad; i++)
    bad = sqlite3_create_function_v2(db, all[i].name, all[i].n, how, NULL,
                                     all[i].call, NULL, NULL, NULL);
  if (!bad)
    bad = sqlite3_create_function_v2(db, "right_interval", 2, how, NULL, NULL,
                                     add_context, finish_contexts, NULL);
  return bad ? bad
             : sqlite3_create_function_v2(db, "standard_error", 1, how, NULL,
                                          NULL, add, finish_error, NULL);
}
