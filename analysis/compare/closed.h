/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers "does the model still answer?" from evaluations (closed loop): right
 * answers of each method at each budget, with intervals, and which method is
 * best. Evaluations are questions that a model answered while a method held its
 * cache (`kvreplay evaluate`). Only tasks of which dense answers 60 % count.
 * The same code as for traces (answer.h) ranks and tests methods, and writes
 * the table for people: kv_answer_ask(db, &c.a, false, &grid).
 *
 * Call kv_results_answers once, then kv_closed_find, read, free. Cost: as
 * answer.h, and a bootstrap for each method and budget.
 */
#ifndef KV_ANALYSIS_CLOSED_H
#define KV_ANALYSIS_CLOSED_H

#include "analysis/compare/answer.h"

typedef struct kv_closed {
  kv_answer a;  /* by exact_match; sizes are bytes held, bytes read, entries; 0
                   sizes: no evaluation counts */
  kv_grid left; /* the view `unmeasured`: tasks that are left out, and why */
} kv_closed;

/* Returns an exit code (analysis/database/say.h), KV_EXIT_OK also without
 * evaluations. Free *out with kv_closed_free, also after a failure. */
int kv_closed_find(sqlite3 *db, kv_closed *out);
void kv_closed_free(kv_closed *c); /* accepts zeroed */

/* The answer in sentences, a line for each budget: right answers of each method
 * with their 95 % interval, the number of questions, what can be told apart,
 * and what is left out. "": the database has no questions with right answers.
 */
void kv_closed_say(const kv_closed *c, char out[KV_ANSWER_SAID]);

/* Stores it in the new temporary table `closed_all` (kv_answer_put), and makes
 * the view `closed_at` of it, a row per budget and method, dense in each:
 * basis, asked, reads, size (0.25 of dense's bytes, or of the prompt; null:
 * entries), rank, method, baseline, place, exact (right answers, 0 to 1), low
 * and high (null: none), questions, contexts, tasks, share, verdict, reason.
 * Returns an exit code. */
int kv_closed_put(sqlite3 *db, const kv_closed *c);

#endif
