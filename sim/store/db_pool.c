/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools of pages that requests shared (kvreplay run --together): a row for each
 * pool, and one for each of its requests that ran, which refers to its run. A
 * pool is identified by the digest of lines of text that list its inputs, so
 * that anyone can compute it again:
 *
 *   layout NAME | bytes N | every N | wait 1, if requests wait |
 *   arrive NAME, unless one arrives every N steps | a line request PLACE KEY
 * for each, followed by arrives STEP BLOCKS if they arrive by a file
 *
 * A pool that is already stored is compared, and differences are reported.
 */
#include "sim/store/db_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void name_of(const kv_pool_result *p, int n, const kv_result *const *r,
                    char out[65]) {
  char key[65], line[100];
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_db_line(&h, "layout", p->layout);
  kv_db_line_int(&h, "bytes", p->bytes);
  kv_db_line_int(&h, "every", p->every);
  if (p->wait) kv_db_line_int(&h, "wait", p->wait);
  if (strcmp(p->arrive, "every")) kv_db_line(&h, "arrive", p->arrive);
  for (int i = 0; i < n; i++) {
    if (!kv_result_ran(r[i])) continue;
    kv_db_key(r[i], key);
    snprintf(line, sizeof line, "%" PRId64 " %s", r[i]->together.place, key);
    kv_db_line(&h, "request", line);
    if (strcmp(p->arrive, "file")) continue;
    snprintf(line, sizeof line, "%" PRId64 " %" PRId64, r[i]->together.arrives,
             r[i]->together.blocks);
    kv_db_line(&h, "arrives", line);
  }
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, out);
}

/* Adds the stored run that a request refers to to the gathered rows. */
static kv_rc gather_run(kv_db *db, const char *key, int64_t *run, kv_err *e) {
  kv_rc rc = kv_db_do(db, e,
                      "INSERT INTO now.trace SELECT t.* FROM main.trace t JOIN"
                      " main.run USING (identity) WHERE key = ?"
                      " ON CONFLICT DO NOTHING",
                      "s", key);
  if (!rc)
    rc = kv_db_do(db, e,
                  "INSERT INTO now.run SELECT * FROM main.run WHERE key = ?"
                  " ON CONFLICT DO NOTHING",
                  "s", key);
  if (!rc) rc = kv_db_run_of(db, key, run, e);
  if (!rc && !*run)
    rc = kv_fail(e, KV_INTERNAL, "a request of a pool has no row");
  return rc;
}

static kv_rc gather_request(kv_db *db, const char *name, const kv_result *r,
                            kv_err *e) {
  kv_together_result t = r->together;
  char key[65];
  int64_t run = 0;
  if (t.refused < 0) t.holds = t.wanted = t.spare = -1; /* null */
  kv_db_key(r, key);
  kv_rc rc = gather_run(db, key, &run, e);
  return rc ? rc
            : kv_db_insert(db, e, KV_DB_request, &t, "sii", name, t.place, run);
}

static kv_rc gather(kv_db *db, const char *name, int n,
                    const kv_result *const *r, const kv_pool_result *now,
                    int64_t steps, const kv_pool_step *step, kv_err *e) {
  kv_rc rc = kv_db_gather(db, e);
  if (!rc)
    rc = kv_db_insert(db, e, KV_DB_pool, now, "sss", name, now->layout,
                      now->arrive);
  for (int64_t i = 0; i < steps && !rc; i++)
    rc = kv_db_insert(db, e, KV_DB_pool_step, &step[i], "s", name);
  for (int i = 0; i < n && !rc; i++)
    if (kv_result_ran(r[i])) rc = gather_request(db, name, r[i], e);
  return rc;
}

kv_rc kv_db_put_pool(kv_db *db, int n, const kv_result *const *r, int64_t steps,
                     const kv_pool_step *step, kv_err *e) {
  const kv_pool_result *now = NULL;
  kv_db_difference d;
  char name[65];
  bool found = false;
  for (int i = 0; i < n && !now; i++)
    if (kv_result_ran(r[i])) now = &r[i]->together.pool;
  if (!now) return KV_OK;
  name_of(now, n, r, name);
  kv_rc rc = db->still ? KV_OK : kv_db_begin(db, e);
  if (rc) return rc;
  rc = gather(db, name, n, r, now, steps, step, e);
  if (!rc) rc = kv_db_settle(db, &found, &d, e);
  db->gathers = false;
  if (!db->still) rc = kv_db_end(db, rc, e);
  if (rc || !found) return rc;
  return kv_fail(e, KV_DIFFERENT,
                 "the pool of %" PRId64 " bytes contradicts %.80s: %s; one of "
                 "the two is wrong",
                 now->bytes, db->path, d.what);
}
