/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/compare/closed.h"
#include "analysis/database/say.h"

#include <stdio.h>

int kv_closed_find(sqlite3 *db, kv_closed *out) {
  *out = (kv_closed){.a = {.sizes = 0}};
  return kv_grid_ask(db, "SELECT place, why FROM unmeasured", 0, NULL,
                     &out->left);
}

void kv_closed_free(kv_closed *c) {
  kv_answer_free(&c->a);
  kv_grid_free(&c->left);
}

void kv_closed_say(const kv_closed *c, char out[KV_ANSWER_SAID]) {
  (void)c;
  snprintf(out, KV_ANSWER_SAID, "%s", "");
}

#define TABLE                                                                  \
  "CREATE TEMP TABLE closed_at AS"                                             \
  " WITH at AS (SELECT DISTINCT basis, asked FROM task_mean"                   \
  "   WHERE asked <> '' AND measure = 'exact' AND measurable),"                \
  " of AS (SELECT method, basis, asked, avg(mean) AS exact,"                   \
  "   sum(questions) AS questions, sum(items) AS contexts, count(*) AS tasks," \
  "   avg((SELECT mean FROM task_mean b WHERE b.measure = 'bytes.mean'"        \
  "     AND (b.model_digest, b.platform, b.task, b.method, b.basis, b.asked)"  \
  "     = (m.model_digest, m.platform, m.task, m.method, m.basis, m.asked)))"  \
  "     AS share"                                                              \
  "   FROM task_mean m WHERE measure = 'exact' AND measurable"                 \
  "   GROUP BY method, basis, asked)"                                          \
  " SELECT at.basis, at.asked, at.basis IN ('read', 'traffic') AS reads,"      \
  "   iif(at.asked LIKE '%\\%' ESCAPE '\\', CAST(substr(at.asked, 1 +"         \
  "     instr(at.asked, ':')) AS REAL) / 100, NULL) AS size,"                  \
  "   row_number() OVER (PARTITION BY at.basis, at.asked ORDER BY"             \
  "     of.asked = '', exact DESC, method) - 1 AS rank, method,"               \
  "   method IN ('dense', 'window', 'random') AS baseline,"                    \
  "   iif(of.asked = '', 'own', 'equal') AS place, exact,"                     \
  "   max(exact - 2 * sqrt(exact * (1 - exact) / contexts), 0) AS low,"        \
  "   min(exact + 2 * sqrt(exact * (1 - exact) / contexts), 1) AS high,"       \
  "   questions, contexts, tasks, share, '' AS verdict, '' AS reason"          \
  " FROM at JOIN of ON of.asked = '' OR (of.basis, of.asked) = (at.basis,"     \
  "   at.asked)"

int kv_closed_put(sqlite3 *db, const kv_closed *c) {
  (void)c;
  return sqlite3_exec(db, TABLE, NULL, NULL, NULL)
             ? kv_tell(KV_EXIT_RESOURCE, "the answers: %.300s",
                       sqlite3_errmsg(db))
             : KV_EXIT_OK;
}

int kv_closed_ask(sqlite3 *db, const kv_closed *c, kv_grid *out) {
  (void)c;
  return kv_grid_ask(db, "SELECT method, asked, exact FROM closed_at LIMIT 0",
                     0, NULL, out);
}
