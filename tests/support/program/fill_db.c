/* SPDX-License-Identifier: Apache-2.0
 *
 * fill_db FILE FIRST LAST MACHINE [flip|scores|blind]: puts the made-up rows of
 * traces FIRST..LAST-1 into FILE, confirmed by two kernel sets on a machine of
 * that number; the first trace on machine 0 is confirmed by one only. `flip`
 * changes one output digest, as a wrong kernel would, `scores` one of scores
 * alone; `blind` has not looked at scores. And made-up evaluations of items
 * FIRST..LAST-1, of which `flip` changes an answer. Exit code as kv_rc.
 */
#include "sim/store/db.h"
#include "tests/support/program/answers.h"
#include "tests/support/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kv_rc put(kv_db *db, const kv_environment *v, int trace, int m, int b,
                 const char *isa, const char *how, kv_err *e) {
  kv_result r = kv_rows_make(trace, m, b, isa, *isa == 'p' ? 1 : 2);
  kv_rc rc;
  if (!strcmp(how, "flip") && m == 4 && b == 1) {
    r.output.byte[0] ^= 1;
    r.layer[2].output.byte[0] ^= 1;
  }
  if (!strcmp(how, "scores") && m == 4 && b == 1) {
    r.scores.byte[0] ^= 1;
    r.layer[1].scores.byte[0] ^= 1;
  }
  if (!strcmp(how, "blind")) r.has_scores = false;
  if (m == 7 && b == 0) {
    r.status = KV_CELL_REFUSED;
    snprintf(r.reason, sizeof r.reason, "window 32 is larger than budget 24");
  }
  rc = kv_db_put(db, &r, v, e);
  kv_result_free(&r);
  return rc;
}

int main(int argc, char **argv) {
  kv_db *db = NULL;
  kv_err e = {0};
  int first, last, machine;
  const char *how = argc > 5 ? argv[5] : "";
  kv_environment v;
  if (argc < 5) return KV_USAGE;
  first = atoi(argv[2]);
  last = atoi(argv[3]);
  machine = atoi(argv[4]);
  v = kv_rows_environment(machine);
  if (kv_db_open(argv[1], &db, &e)) goto out;
  for (int t = first; t < last; t++)
    for (int m = 0; m < KV_ROWS_METHODS; m++)
      for (int b = 0; b < (kv_rows_has_budget(m) ? KV_ROWS_BUDGETS : 1); b++) {
        if (put(db, &v, t, m, b, "avx2", how, &e)) goto out;
        if ((t || machine) && put(db, &v, t, m, b, "portable", how, &e))
          goto out;
      }
out:
  kv_db_close(db);
  if (e.rc <= KV_DIFFERENT)
    kv_answers_put(argv[1], first, last, !strcmp(how, "flip"),
                   e.rc ? NULL : &e);
  if (e.rc) fprintf(stderr, "fill_db: %s\n", e.text);
  return (int)e.rc;
}
