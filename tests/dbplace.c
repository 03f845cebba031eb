/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/dbplace.h"
#include "tests/rows.h"

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

kv_rc kv_dbplace_put(kv_db *db, const kv_result *r, kv_err *e) {
  kv_environment v = kv_rows_environment(0);
  return kv_db_put(db, r, &v, e);
}
