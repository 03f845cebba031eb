/* SPDX-License-Identifier: Apache-2.0
 *
 * What intervals are made of: squares of the values of each part, and the mean
 * of each decode step. They stand beside the digest of all values, which does
 * not count them.
 */
#include "sim/db/db_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int steps_of(const kv_result *r) {
  return r->n_steps > 0 ? r->n_steps - 1 : 0;
}

/* --- writing ------------------------------------------------------------ */

/* Little-endian, whatever this machine is. */
static void to_bytes(int n, const float *x, unsigned char *out) {
  for (int i = 0; i < n; i++) {
    uint32_t bits = 0x7fc00000; /* any NaN has one pattern */
    if (!isnan(x[i])) memcpy(&bits, &x[i], sizeof bits);
    for (int k = 0; k < 4; k++) *out++ = (unsigned char)(bits >> 8 * k);
  }
}

static void from_bytes(int n, const unsigned char *from, float *x) {
  for (int i = 0; i < n; i++) {
    uint32_t bits = 0;
    for (int k = 0; k < 4; k++) bits |= (uint32_t)*from++ << 8 * k;
    memcpy(&x[i], &bits, sizeof bits);
  }
}

kv_rc kv_db_put_means(kv_db *db, int64_t run, const kv_result *r, kv_err *e) {
  int steps = steps_of(r);
  size_t size = 4 * (size_t)steps;
  unsigned char *bytes = kv_zalloc(1, size + 1);
  kv_rc rc = bytes ? KV_OK : kv_no_memory(e, "means of steps", size);
  for (int m = 0; m < KV_MEASURES && !rc; m++) {
    if (!r->stat[m].count || !kv_measure_of_steps(m)) continue;
    to_bytes(steps, r->step_mean + m * steps, bytes);
    rc = kv_db_do(db, e, "INSERT INTO step_mean VALUES (?,?,?)", "isb", run,
                  kv_measure_table[m].name,
                  &(kv_db_blob){.size = size, .data = bytes});
  }
  free(bytes);
  return rc;
}

/* --- reading ------------------------------------------------------------ */

static kv_rc bad_size(kv_db *db, int64_t run, kv_err *e) {
  return kv_fail(e, KV_INPUT,
                 "%s is damaged: table step_mean has not one number a step of "
                 "run_id %lld: take another copy of it, or run the cells again "
                 "into a new file",
                 db->path, (long long)run);
}

static kv_rc take_means(kv_db *db, sqlite3_stmt *s, int64_t run, kv_result *r,
                        kv_err *e) {
  int m = kv_db_measure(db, s, 0), steps = steps_of(r);
  size_t all = (size_t)KV_MEASURES * (size_t)steps;
  const unsigned char *bytes = sqlite3_column_blob(s, 1);
  if (sqlite3_column_bytes(s, 1) != 4 * steps) return bad_size(db, run, e);
  if (!bytes && steps) return kv_db_fail(db, "read", e);
  if (!r->step_mean) {
    r->step_mean = kv_zalloc(all + 1, sizeof *r->step_mean);
    if (!r->step_mean) return kv_no_memory(e, "means of steps", 4 * all);
    for (size_t i = 0; i < all; i++) r->step_mean[i] = NAN;
  }
  if (m >= 0) from_bytes(steps, bytes, r->step_mean + m * steps);
  return KV_OK;
}

kv_rc kv_db_load_means(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc bad = KV_OK;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT measure, mean FROM step_mean WHERE run_id = ?",
                        "i", run);
  while (!rc && !bad && kv_db_row(db, s, &rc, e))
    bad = take_means(db, s, run, r, e);
  if (bad) sqlite3_reset(s);
  if (!rc && !bad) rc = kv_db_sound(db, "step_mean", run, e);
  return rc ? rc : bad;
}

/* --- comparing ---------------------------------------------------------- */

static bool compare_squares(const kv_stat *a, const kv_stat *b,
                            char where[KV_DB_WHERE]) {
  for (int m = 0; m < KV_MEASURES; m++)
    if (a[m].count && b[m].count &&
        kv_db_bits(a[m].squares) != kv_db_bits(b[m].squares)) {
      snprintf(where, KV_DB_WHERE,
               "digests agree, but the squares of %s are %.17g before and "
               "%.17g now",
               kv_measure_table[m].name, a[m].squares, b[m].squares);
      return true;
    }
  return false;
}

/* A measure that one of them does not know is compared by nobody. */
static void compare_means(const kv_result *a, const kv_result *b,
                          char where[KV_DB_WHERE]) {
  int steps = steps_of(a);
  for (int m = 0; m < KV_MEASURES && steps == steps_of(b); m++)
    for (int i = 0; a->stat[m].count && b->stat[m].count && i < steps; i++) {
      double x = a->step_mean[m * steps + i], y = b->step_mean[m * steps + i];
      if (kv_db_bits(x) == kv_db_bits(y)) continue;
      snprintf(where, KV_DB_WHERE,
               "digests agree, but the mean %s of step %d is %.9g before and "
               "%.9g now",
               kv_measure_table[m].name, a->prompt_len + 1 + i, x, y);
      return;
    }
}

void kv_db_compare_moments(const kv_result *before, const kv_result *now,
                           char where[KV_DB_WHERE]) {
  if (!before->step_mean || !now->step_mean) return;
  if (compare_squares(before->stat, now->stat, where)) return;
  for (int i = 0; i < before->n_parts && i < now->n_parts; i++)
    if (compare_squares(before->part[i].stat, now->part[i].stat, where)) return;
  compare_means(before, now, where);
}
