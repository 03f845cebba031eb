/* SPDX-License-Identifier: Apache-2.0
 *
 * Which open-loop measure ranks methods as their answers do, in a database:
 * reads its evaluations, ranks (rank.h), and stores the results in the
 * temporary tables of sql/ranks.sql, which `kvreport rank` and the page print.
 * Call kv_results_answers, then kv_ranked_fill once.
 */
#ifndef KV_ANALYSIS_RANKED_H
#define KV_ANALYSIS_RANKED_H

#include <sqlite3.h>

enum { KV_RANKED_DRAWS = 2000, KV_RANKED_DRAWS_LEAST = 40 };

typedef struct kv_ranked_how {
  int draws;           /* resamples, at least KV_RANKED_DRAWS_LEAST */
  const char *measure; /* whose pairs are listed; NULL: the best one's */
} kv_ranked_how;

/* Fills rank_cell, rank_answer, ranked and misranked of db, which was opened
 * from path. Returns an exit code (analysis/database/say.h): KV_EXIT_OK, also
 * if nothing could be ranked; KV_EXIT_USAGE: no such measure. */
int kv_ranked_fill(sqlite3 *db, const char *path, const kv_ranked_how *how);

#endif
