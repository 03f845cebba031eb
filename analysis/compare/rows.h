/* SPDX-License-Identifier: Apache-2.0
 *
 * All results for one measure at one budget, and lookup of a method among them
 * by the text that a user types (`quest:page=16`). Order of calls: find (or
 * all), name, pair, free. `kvreport compare` and answer.h use it.
 */
#ifndef KV_ANALYSIS_COMPARE_ROWS_H
#define KV_ANALYSIS_COMPARE_ROWS_H

#include "analysis/compare/measures.h"
#include "analysis/tables/variants.h"

typedef struct kv_compare_rows {
  const kv_compared *by; /* the measure, a constant */
  const char *at;        /* the budget as typed, "mean:20%"; the caller's */
  kv_grid g; /* rows of the view `cell`, sorted by unit, with the columns value,
                questions (number of values in the mean) and share (bytes as a
                share of dense, in the basis of `at`; NaN: dense did not run) */
  kv_variants v; /* the variant, and thereby the name, of each row's method */
} kv_compare_rows;

/* Reads the rows at that budget, and rows of methods without a budget. Returns
 * an exit code (analysis/database/say.h): KV_EXIT_USAGE if no row has the
 * budget; the message lists those in the database. Free *out, also after a
 * failure. */
int kv_compare_rows_find(sqlite3 *db, const kv_compared *by, const char *at,
                         kv_compare_rows *out);
/* The same for cells, without a message if there are none. refused: also rows
 * that were refused or failed, which have no value. The grid also has the
 * columns status, reason and kl. */
int kv_compare_rows_all(sqlite3 *db, const kv_compared *by, const char *at,
                        bool refused, kv_compare_rows *out);
void kv_compare_rows_free(kv_compare_rows *x); /* accepts zeroed */

/* Sets *variant to the number in x->v of the method that text names: its name
 * in tables, or a method with enough parameters to identify it,
 * "quest:page=16". KV_EXIT_USAGE, with a list, if there is none or several. */
int kv_compare_rows_name(const kv_compare_rows *x, const char *text,
                         int *variant);

/* A unit is what two methods are compared on: one request (perhaps in several
 * traces), or one item of a task. Rows of a unit agree in these columns; rows
 * of one trace also in the second list. */
#define KV_UNIT "request prompt_len observe"
#define KV_UNIT_TRACE KV_UNIT " trace"

/* The pairs of variants a and b: units on which both have a value; for an item,
 * both must have answered the same number of questions. A unit of several
 * traces counts by its means over the traces that both have. */
typedef struct kv_pairs {
  int n;           /* pairs */
  double *d;       /* [n] a's value minus b's, in the measure's unit; the
                      caller's, allocated for all rows of x->g */
  double share[2]; /* mean bytes over the pairs as a share of dense, for a and
                      for b; NaN: unknown */
} kv_pairs;
/* Fills in *out; the caller has set d. Cannot fail. */
void kv_compare_rows_pair(const kv_compare_rows *x, int a, int b,
                          kv_pairs *out);

#endif
