/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools of pages that requests shared (kvreplay run --together): a row a pool,
 * and one for each of its requests that ran, which refers to its run. A pool is
 * named by the digest of lines of text that say what it follows from, so that
 * anyone can compute it again:
 *
 *   layout NAME | bytes N | every N | wait 1, where requests wait |
 *   arrive NAME, where not one every N steps | request PLACE KEY, a line each,
 *   of a file behind it arrives STEP BLOCKS
 *
 * Where it is there already it is compared, and what differs is reported.
 */
#include "sim/db/db_private.h"

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

/* --- the pool ------------------------------------------------------------- */

/* Columns of the tables pool, pool_step and request, in the schema's order. */
#define POOL(member) KV_DB_OF('i', kv_pool_result, member, 0)
#define STEP(member) KV_DB_OF('i', kv_pool_step, member, 0)
#define REQUEST(member) KV_DB_OF('i', kv_together_result, member, 0)

static const kv_db_column of_pool[] = {POOL(bytes),      POOL(every),
                                       POOL(page),       POOL(pages),
                                       POOL(requests),   POOL(steps),
                                       POOL(peak),       POOL(held),
                                       POOL(unused),     POOL(unused_peak),
                                       POOL(moved),      POOL(entries),
                                       POOL(operations), {0}};
static const kv_db_column of_queue[] = {POOL(wait),
                                        POOL(map_peak),
                                        POOL(running),
                                        POOL(running_peak),
                                        POOL(waiting),
                                        POOL(waiting_peak),
                                        {0}};
static const kv_db_column of_step[] = {
    STEP(step), STEP(running), STEP(waiting), STEP(pages), STEP(unused), {0}};
static const kv_db_column of_request[] = {
    REQUEST(arrives), REQUEST(ends), REQUEST(pages_peak), {0}};
static const kv_db_column of_waiting[] = {
    REQUEST(blocks),
    KV_DB_OF('o', kv_together_result, admitted, 0),
    KV_DB_OF('o', kv_together_result, first, 0),
    REQUEST(waited),
    REQUEST(put_back),
    {0}};
static const kv_db_column of_refusal[] = {
    REQUEST(refused), REQUEST(holds), REQUEST(wanted), REQUEST(spare), {0}};

/* *found: it is there; *was: with these numbers; what: the first that is
 * another now. */
static kv_rc load(kv_db *db, const char *name, const kv_pool_result *now,
                  kv_pool_result *was, bool *found, char what[KV_DB_WHAT],
                  kv_err *e) {
  sqlite3_stmt *s;
  kv_rc rc =
      kv_db_bind(db, &s, e, "SELECT * FROM pool WHERE pool = ?", "s", name);
  *found = false;
  if (rc || !kv_db_row(db, s, &rc, e)) return rc;
  *found = true;
  int queue = kv_db_take(db, s, 2, of_pool, was) + 1;
  kv_db_take(db, s, queue, of_queue, was);
  kv_db_tell(s, 2, of_pool, was, now, what);
  kv_db_tell(s, queue, of_queue, was, now, what);
  return kv_db_done(db, s, kv_db_sound(db, "pool", 0, e), e);
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
  if (rc) return rc;
  return kv_db_do(db, e,
                  "INSERT INTO request VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                  "siittt", name, t->place, run, of_request, t, of_refusal,
                  t->refused < 0 ? NULL : t, of_waiting, t);
}

/* --- both ----------------------------------------------------------------- */

static kv_rc check(const kv_db *db, const kv_pool_result *now, const char *what,
                   kv_err *e) {
  if (!*what) return KV_OK;
  return kv_fail(e, KV_DIFFERENT,
                 "the pool of %" PRId64 " bytes contradicts %.80s: %s; one of "
                 "the two is wrong",
                 now->bytes, db->path, what);
}

static kv_rc put(kv_db *db, const char *name, int n, const kv_result *const *r,
                 const kv_pool_result *now, int64_t steps,
                 const kv_pool_step *step, kv_err *e) {
  kv_rc rc = kv_db_do(db, e,
                      "INSERT INTO pool VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
                      "?,?,?,?,?,?,?)",
                      "sstst", name, now->layout, of_pool, now, now->arrive,
                      of_queue, now);
  for (int64_t i = 0; i < steps && !rc; i++)
    rc = kv_db_do(db, e, "INSERT INTO pool_step VALUES (?,?,?,?,?,?)", "st",
                  name, of_step, &step[i]);
  for (int i = 0; i < n && !rc; i++)
    if (kv_result_ran(r[i])) rc = put_request(db, name, r[i], e);
  return rc;
}

kv_rc kv_db_put_pool(kv_db *db, int n, const kv_result *const *r, int64_t steps,
                     const kv_pool_step *step, kv_err *e) {
  const kv_pool_result *now = NULL;
  kv_pool_result was = {0};
  char name[65], what[KV_DB_WHAT] = "";
  bool found = false;
  for (int i = 0; i < n && !now; i++)
    if (kv_result_ran(r[i])) now = &r[i]->together.pool;
  if (!now) return KV_OK;
  name_of(now, n, r, name);
  kv_rc rc = db->still ? KV_OK : kv_db_begin(db, e);
  if (!rc) rc = load(db, name, now, &was, &found, what, e);
  if (!rc && !found && !db->still)
    rc = put(db, name, n, r, now, steps, step, e);
  if (!db->still) rc = kv_db_end(db, rc, e);
  return rc || !found ? rc : check(db, now, what, e);
}
