/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/program/dbplace.h"
#include "tests/support/rows.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int kv_dbplace_open(void **state) {
  kv_dbplace *p = calloc(1, sizeof *p);
  strcpy(p->folder, "check_db_XXXXXX");
  if (!mkdtemp(p->folder)) return -1;
  snprintf(p->path, sizeof p->path, "%s/r.db", p->folder);
  *state = p;
  return kv_db_open(p->path, &p->db, NULL) ? -1 : 0;
}

int kv_dbplace_close(void **state) {
  static const char *const tail[] = {"", "-wal", "-shm", "-journal"};
  kv_dbplace *p = *state;
  kv_db_close(p->db);
  for (int i = 0; i < 4; i++) {
    char path[96];
    snprintf(path, sizeof path, "%s%s", p->path, tail[i]);
    unlink(path);
  }
  rmdir(p->folder);
  free(p);
  return 0;
}

int64_t kv_dbplace_number(kv_db *db, const char *sql) {
  sqlite3_stmt *s;
  int64_t n;
  if (sqlite3_prepare_v2(db->sql, sql, -1, &s, NULL)) return -1;
  n = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
  sqlite3_finalize(s);
  return n;
}

void kv_dbplace_gives(const kv_dbplace *p, const char *sql, int64_t n) {
  int64_t got = kv_dbplace_number(p->db, sql);
  if (got != n) fail_msg("%s: %d, not %d", sql, (int)got, (int)n);
}

kv_rc kv_dbplace_put(kv_db *db, const kv_result *r, kv_err *e) {
  kv_environment v = kv_rows_environment(0);
  return kv_db_put(db, r, &v, e);
}

kv_result kv_dbplace_names(const kv_result *r) {
  kv_result n = {.has_identity = true,
                 .identity = r->identity,
                 .prompt_len = r->prompt_len,
                 .n_tokens = r->n_tokens,
                 .method = r->method,
                 .revision = r->revision,
                 .arithmetic = r->arithmetic,
                 .basis = r->basis,
                 .budget = r->budget};
  memcpy(n.trace, r->trace, sizeof n.trace);
  memcpy(n.target, r->target, sizeof n.target);
  n.params = strdup(r->params);
  n.spec = strdup(r->spec);
  n.code = r->code ? strdup(r->code) : NULL;
  return n;
}

static void rekey(sqlite3_context *c, int n, sqlite3_value **text) {
  kv_digest d;
  char hex[65];
  kv_sha256 h;
  (void)n;
  kv_sha256_init(&h);
  kv_sha256_add(&h, sqlite3_value_text(*text),
                (size_t)sqlite3_value_bytes(*text));
  d = kv_sha256_end(&h);
  kv_digest_hex(&d, hex);
  sqlite3_result_text(c, hex, 64, SQLITE_TRANSIENT);
}

void kv_dbplace_rekey(const char *path) {
  sqlite3 *db;
  if (sqlite3_open(path, &db) ||
      sqlite3_create_function(db, "key_of", 1, SQLITE_UTF8, NULL, rekey, NULL,
                              NULL) ||
      sqlite3_exec(db,
                   "UPDATE run SET key = key_of("
                   "'trace ' || identity || char(10) ||"
                   " 'prompt_len ' || prompt_len || char(10) ||"
                   " 'method ' || method || char(10) ||"
                   " 'params ' || params || char(10) ||"
                   " 'code ' || code || char(10) ||"
                   " 'arithmetic ' || arithmetic || char(10))"
                   " WHERE status = 'ok'",
                   NULL, NULL, NULL))
    abort();
  sqlite3_close(db);
}
