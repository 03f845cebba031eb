/* SPDX-License-Identifier: Apache-2.0
 *
 * The evaluations that are ranked (sql/ranks.sql), read into a kv_ranks. Called
 * by ranked.c, once a model, after rank_cell, rank_answer and rank_measure were
 * filled.
 */
#ifndef KV_ANALYSIS_RANKED_READ_H
#define KV_ANALYSIS_RANKED_READ_H

#include "analysis/compare/measures.h"
#include "analysis/compare/rank.h"
#include "analysis/compare/ranked.h"
#include "analysis/database/grid.h"

enum { KV_RANKED_MOST = 256, KV_RANKED_NAME = 40 };

/* What is asked of which database. */
typedef struct kv_ranked_ask {
  sqlite3 *db;
  const char *path;         /* of db, for sentences */
  const kv_ranked_how *how; /* the caller's */
  int measures, answers;    /* answers stand first */
  struct {
    char name[KV_RANKED_NAME]; /* "kl.p95" */
    const kv_compared *of;
    const char *statistic;   /* in name: ".p95"; "" of the mean or a total */
  } measure[KV_RANKED_MOST]; /* [measures] as rank_measure numbers them */
} kv_ranked_ask;

/* Fills *x from the evaluations of a model, "0", "1", .. in rank_cell, of which
 * cells has all rows that count, by cell. An exit code; free *x with
 * kv_ranks_free, also after a failure. */
int kv_ranked_read(const kv_ranked_ask *a, const char *model,
                   const kv_grid *cells, kv_ranks *x);

#endif
