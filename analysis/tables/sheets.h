/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of kvreport for people: columns of a view, in order, and text below
 * the table. For programs a table has all columns of its view.
 */
#ifndef KV_ANALYSIS_SHEETS_H
#define KV_ANALYSIS_SHEETS_H

#include <stdbool.h>

/* The column that shows a cell's trace; and a heading for prompts that were
 * read in chunks. */
#define KV_SHEET_PLACE                                                         \
  "trace || iif(observe = 'recorded', '', ', ' || observe) AS trace"
#define KV_SHEET_P_ERROR "p error"
/* After a trace whose marked answer the model does not give itself. */
#define KV_SHEET_BY_USER "\u2020"
/* Log-likelihood of answers per token, marked if some questions have only the
 * sum; in older rows the sum, marked. */
#define KV_SHEET_LOGLIK                                                        \
  " coalesce(about(loglik_token, loglik_token_se)"                             \
  " || iif(loglik_some, ' *', ''),"                                            \
  " about(loglik, loglik_se) || ' sum')"

/* The measures shown to people. The first one ranks a model's answers best
 * (tests/check_evidence.sh holds it to analysis/evaluations/ranks.csv). A row:
 * a column of the view `cell`, its heading in `kvreport table`, its heading on
 * the page. SPREAD: the page also shows a standard error. SOME: only if some
 * row has a value. analysis/each.awk also reads this list. */
#define KV_SHOWN_EACH(S)                                                       \
  S(output_abs_max, "worst", "worst error", ALONE)                             \
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
  const char *order;          /* SQL after the view; or NULL */
  const char *words, *more;   /* paragraphs; NULL: none */
  bool answers;               /* evaluations, in closed loop; false: cells */
  bool bytes;                 /* about memory, not attention */
  int headed;                 /* kv_grid.headed */
} kv_sheet;

/* Columns that are dropped if no row has a value; ended by NULL. */
extern const char *const kv_sheet_optional[];

extern const kv_sheet kv_sheet_cells, kv_sheet_every, kv_sheet_mean,
    kv_sheet_gaps, kv_sheet_answers, kv_sheet_texts, kv_sheet_pools,
    kv_sheet_layouts, kv_sheet_caches;

#endif
