/* SPDX-License-Identifier: Apache-2.0
 *
 * The mean of each decode step, from which intervals are computed, as binary32.
 */
#include "sim/store/db_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int steps_of(const kv_result *r) {
  return r->n_steps > 0 ? r->n_steps - 1 : 0;
}

/* Little-endian, whatever this machine is. */
static void to_bytes(int n, const float *x, unsigned char *out) {
  for (int i = 0; i < n; i++) {
    uint32_t bits = 0x7fc00000; /* the same pattern for any NaN */
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
    rc = kv_db_insert(db, e, KV_DB_step_mean, NULL, "isb", run,
                      kv_measure_table[m].name,
                      &(kv_db_blob){.size = size, .data = bytes});
  }
  free(bytes);
  return rc;
}

static kv_rc bad_size(kv_db *db, int64_t run, kv_err *e) {
  return kv_fail(
      e, KV_INPUT,
      "%s is damaged: table step_mean must have one number per step of run_id "
      "%lld; restore it from a copy, or run the cells again into a new file",
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
