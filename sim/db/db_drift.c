/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift of each part: what the log-sum-exp of the stored tokens lacks of that
 * of all, summed over steps. Rows of an earlier kvreplay have none; whoever
 * computes such a row again records it, and it is compared from then on. Part
 * 0 is the run. It stands beside the digest of all values, which does not count
 * it.
 */
#include "sim/db/db_private.h"

#include <math.h>
#include <stdio.h>

static double drift_of(const kv_result *r, int part) {
  return part ? r->part[part - 1].drift : r->drift;
}

kv_rc kv_db_put_drift(kv_db *db, int64_t run, const kv_result *before,
                      const kv_result *r, kv_err *e) {
  kv_rc rc = KV_OK;
  if (isnan(r->drift) || !isnan(before->drift)) return rc;
  for (int i = 0; i <= r->n_parts && !rc; i++)
    rc = kv_db_do(db, e,
                  "UPDATE part SET drift = ?3, drift_bits = ?4"
                  " WHERE run_id = ?1 AND part = ?2",
                  "iiD", run, (int64_t)i, drift_of(r, i));
  return rc;
}

kv_rc kv_db_load_drift(kv_db *db, int64_t run, kv_result *r, kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(db, &s, e,
                        "SELECT part, drift_bits FROM part WHERE run_id = ?",
                        "i", run);
  r->drift = (double)NAN;
  while (!rc && kv_db_row(db, s, &rc, e)) {
    int part = (int)kv_db_whole(db, s, 0, 0, r->n_parts);
    bool there = sqlite3_column_type(s, 1) != SQLITE_NULL;
    *(part ? &r->part[part - 1].drift : &r->drift) =
        there ? kv_db_double(db, s, 1) : (double)NAN;
  }
  return rc ? rc : kv_db_sound(db, "part", run, e);
}

void kv_db_compare_drift(const kv_result *before, const kv_result *now,
                         char where[KV_DB_WHERE]) {
  if (isnan(before->drift) || isnan(now->drift)) return;
  for (int i = 0; i <= before->n_parts && i <= now->n_parts; i++) {
    double x = drift_of(before, i), y = drift_of(now, i);
    if (kv_db_bits(x) == kv_db_bits(y)) continue;
    snprintf(where, KV_DB_WHERE,
             "digests agree, but the drift of part %d is %.17g before and "
             "%.17g now",
             i, x, y);
    return;
  }
}
