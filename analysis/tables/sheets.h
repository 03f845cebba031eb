/* SPDX-License-Identifier: Apache-2.0
 *
 * What tables of kvreport have for people: columns of a view in the order in
 * which they stand, and words below the table about them. For programs a table
 * has all columns of its view.
 */
#ifndef KV_ANALYSIS_SHEETS_H
#define KV_ANALYSIS_SHEETS_H

#include <stdbool.h>

/* In every list of columns: where a cell is from. And a column of some: of
 * prompts that were read in chunks. */
#define KV_SHEET_PLACE                                                         \
  "trace || iif(observe = 'recorded', '', ', ' || observe) AS trace"
#define KV_SHEET_P_ERROR "p error"
/* Of answers: per token, marked where some of the questions have the sum alone;
 * or of older rows the sum, marked. */
#define KV_SHEET_LOGLIK                                                        \
  " coalesce(about(loglik_token, loglik_token_se)"                             \
  " || iif(loglik_some, ' *', ''),"                                            \
  " about(loglik, loglik_se) || ' sum')"

/* What people are shown of the measures, in this order, what ranks answers
 * first: a column of the view `cell`, its heading in a table of `kvreport
 * table`, and on the page, where a standard error stands beside those that are
 * SPREAD, and of SOME that no row has there is no column. analysis/each.awk
 * reads it, too. */
#define KV_SHOWN_EACH(S)                                                       \
  S(needle_share, "needle", "needle", SPREAD)                                  \
  S(lse_error, "lse", "LSE error", SPREAD)                                     \
  S(kl, "kl", "KL", SPREAD)                                                    \
  S(output_error, "error", "error", SPREAD)                                    \
  S(output_error_p95, "error p95", "error p95", ALONE)                         \
  S(mass, "mass", "mass", ALONE)                                               \
  S(recall_16, "top-16", "top-16", ALONE)                                      \
  S(prompt_error, KV_SHEET_P_ERROR, "prompt error", SOME)                      \
  S(prompt_mass, "p mass", "prompt mass", SOME)

typedef struct kv_sheet {
  const char *view, *columns; /* SQL */
  const char *order;          /* SQL behind the view; or NULL */
  const char *words, *more;   /* paragraphs; NULL: none */
  bool answers; /* of evaluations, which are in closed loop, and not of cells */
  bool bytes;   /* of what memory holds, not of attention */
  bool headed;  /* kv_grid.headed */
} kv_sheet;

/* Columns that are dropped where no row has a value; ended by NULL. */
extern const char *const kv_sheet_optional[];

extern const kv_sheet kv_sheet_cells, kv_sheet_every, kv_sheet_mean,
    kv_sheet_gaps, kv_sheet_answers, kv_sheet_pools, kv_sheet_layouts,
    kv_sheet_caches;

#endif
