/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a database that a comparison is about: one measure, everything
 * that was asked for at one budget, and which of it a text like those of the
 * option -m means. Find, name, pair, free.
 */
#ifndef KV_ANALYSIS_COMPARE_ROWS_H
#define KV_ANALYSIS_COMPARE_ROWS_H

#include "analysis/compare/measures.h"
#include "analysis/tables/variants.h"

typedef struct kv_compare_rows {
  const kv_compared *by;
  const char *at; /* as asked, "mean:20%" */
  kv_grid g;      /* rows of the view `cell`, unit by unit, with the columns
                     value, questions (that it is the mean of) and share: of
                     dense's bytes, by what `at` is of, NaN where dense was not
                     run */
  kv_variants v;  /* and what each row's method is called */
} kv_compare_rows;

/* Reads the rows at that budget, and of methods without one. An exit code
 * (analysis/database/say.h): KV_EXIT_USAGE where nothing was asked for at it,
 * naming what was. Free *out, also after a failure. */
int kv_compare_rows_find(sqlite3 *db, const kv_compared *by, const char *at,
                         kv_compare_rows *out);
/* The same of cells, without a sentence where there are none; refused: those
 * that were refused or failed, too, and so have no value. Their grid has the
 * columns status, reason and kl beside. */
int kv_compare_rows_all(sqlite3 *db, const kv_compared *by, const char *at,
                        bool refused, kv_compare_rows *out);
void kv_compare_rows_free(kv_compare_rows *x); /* accepts zeroed */

/* Sets *variant to the one that text means: what a table calls it, or a method
 * with as many parameters as tell it apart, "quest:page=16". KV_EXIT_USAGE
 * where there is none or several, naming them. */
int kv_compare_rows_name(const kv_compare_rows *x, const char *text,
                         int *variant);

/* Columns in which the rows of a unit are alike: traces that hold one request,
 * or an item; of one trace these, too. */
#define KV_UNIT "request prompt_len observe"
#define KV_UNIT_TRACE KV_UNIT " trace"

/* The pairs of variants a and b: units on which both have a value, items of
 * which both have answered as many questions. Of a unit of several traces the
 * means over those on which both have. */
typedef struct kv_pairs {
  int n;           /* pairs */
  double *d;       /* [n] a's value less b's; room for all rows of x */
  double share[2]; /* of dense's bytes, means over the pairs, a's and b's;
                      NaN: not known */
} kv_pairs;
/* Fills *out, whose d is the caller's. */
void kv_compare_rows_pair(const kv_compare_rows *x, int a, int b,
                          kv_pairs *out);

#endif
