/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools of pages that requests shared (kvreplay run --together): a row a pool,
 * and one for each of its requests that ran, which refers to its run. A pool is
 * named by the digest of lines of text that say what it follows from, so that
 * anyone can compute it again:
 *
 *   layout NAME | bytes N | every N | request PLACE KEY, a line each
 *
 * Where it is there already it is compared, and what differs is reported.
 */
#include "sim/db/db_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add(kv_sha256 *h, const char *name, const char *value) {
  kv_sha256_add(h, name, strlen(name));
  kv_sha256_add(h, " ", 1);
  kv_sha256_add(h, value, strlen(value));
  kv_sha256_add(h, "\n", 1);
}

static void add_int(kv_sha256 *h, const char *name, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  add(h, name, text);
}

static void name_of(const kv_pool_result *p, int n, const kv_result *const *r,
                    char out[65]) {
  char key[65], line[100];
  kv_sha256 h;
  kv_sha256_init(&h);
  add(&h, "layout", p->layout);
  add_int(&h, "bytes", p->bytes);
  add_int(&h, "every", p->every);
  for (int i = 0; i < n; i++) {
    if (!kv_result_ran(r[i])) continue;
    kv_db_key(r[i], key);
    snprintf(line, sizeof line, "%" PRId64 " %s", r[i]->together.place, key);
    add(&h, "request", line);
  }
  kv_digest d = kv_sha256_end(&h);
  kv_digest_hex(&d, out);
}

/* --- the pool ------------------------------------------------------------- */

/* *found: it is there; *was: with these numbers. */
static kv_rc load(kv_db *db, const char *name, kv_pool_result *was, bool *found,
                  kv_err *e) {
  int64_t *const whole[] = {&was->page,    &was->pages,       &was->requests,
                            &was->steps,   &was->peak,        &was->held,
                            &was->unused,  &was->unused_peak, &was->moved,
                            &was->entries, &was->operations};
  sqlite3_stmt *s;
  kv_rc rc = kv_db_bind(
      db, &s, e,
      "SELECT page, pages, requests, steps, peak, held, unused, unused_peak,"
      " moved, table_entries, list_operations FROM pool WHERE pool = ?",
      "s", name);
  *found = false;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *found = true;
  for (int i = 0; i < 11; i++) *whole[i] = kv_db_whole(db, s, i, 0, INT64_MAX);
  rc = kv_db_sound(db, "pool", 0, e);
  kv_rc done = kv_db_done(db, s, rc ? NULL : e);
  return rc ? rc : done;
}

static kv_rc put(kv_db *db, const char *name, const kv_pool_result *p,
                 kv_err *e) {
  return kv_db_do(
      db, e, "INSERT INTO pool VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      "ssiiiiiiiiiiiii", name, p->layout, p->bytes, p->every, p->page, p->pages,
      p->requests, p->steps, p->peak, p->held, p->unused, p->unused_peak,
      p->moved, p->entries, p->operations);
}

/* --- its requests --------------------------------------------------------- */

static kv_rc put_request(kv_db *db, const char *name, const kv_result *r,
                         kv_err *e) {
  const kv_together_result *t = &r->together;
  char key[65];
  int64_t run = 0;
  kv_db_key(r, key);
  kv_rc rc = kv_db_run_of(db, key, &run, e);
  if (!rc && !run)
    return kv_fail(e, KV_INTERNAL, "a request of a pool has no row");
  if (!rc)
    rc = kv_db_do(db, e,
                  "INSERT INTO request(pool, place, run_id, arrives, ends,"
                  " pages_peak) VALUES (?,?,?,?,?,?)",
                  "siiiii", name, t->place, run, t->arrives, t->ends,
                  t->pages_peak);
  if (rc || t->refused < 0) return rc;
  return kv_db_do(db, e,
                  "UPDATE request SET refused = ?3, holds = ?4, wanted = ?5,"
                  " spare = ?6 WHERE pool = ?1 AND place = ?2",
                  "siiiii", name, t->place, t->refused, t->holds, t->wanted,
                  t->spare);
}

/* --- both ----------------------------------------------------------------- */

static bool same(const kv_pool_result *was, const kv_pool_result *now) {
  return was->page == now->page && was->pages == now->pages &&
         was->requests == now->requests && was->steps == now->steps &&
         was->peak == now->peak && was->held == now->held &&
         was->unused == now->unused && was->unused_peak == now->unused_peak &&
         was->moved == now->moved && was->entries == now->entries &&
         was->operations == now->operations;
}

static kv_rc check(const kv_db *db, const kv_pool_result *was,
                   const kv_pool_result *now, kv_err *e) {
  if (same(was, now)) return KV_OK;
  return kv_fail(e, KV_DIFFERENT,
                 "the pool of %" PRId64 " bytes contradicts %.80s: at most "
                 "%" PRId64 " pages in %" PRId64 " steps and %" PRId64
                 " list operations before, %" PRId64 ", %" PRId64
                 " and %" PRId64 " now; one of the two is wrong",
                 now->bytes, db->path, was->peak, was->steps, was->operations,
                 now->peak, now->steps, now->operations);
}

kv_rc kv_db_put_pool(kv_db *db, int n, const kv_result *const *r, kv_err *e) {
  const kv_pool_result *now = NULL;
  kv_pool_result was = {0};
  char name[65];
  bool found = false;
  for (int i = 0; i < n && !now; i++)
    if (kv_result_ran(r[i])) now = &r[i]->together.pool;
  if (!now) return KV_OK;
  name_of(now, n, r, name);
  kv_rc rc = db->still ? KV_OK : kv_db_begin(db, e);
  if (!rc) rc = load(db, name, &was, &found, e);
  if (!rc && !found && !db->still) {
    rc = put(db, name, now, e);
    for (int i = 0; i < n && !rc; i++)
      if (kv_result_ran(r[i])) rc = put_request(db, name, r[i], e);
  }
  if (!db->still) rc = kv_db_end(db, rc, e);
  return rc || !found ? rc : check(db, &was, now, e);
}
