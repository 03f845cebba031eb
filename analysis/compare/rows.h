/* SPDX-License-Identifier: Apache-2.0
 *
 * All results for one measure at one budget, and lookup of a method among them
 * by the text that a user types (`quest:page=16`). Order of calls: find (or
 * all), name, pair, free. `kvreport compare` and answer.h use it.
 */
#ifndef KV_ANALYSIS_COMPARE_ROWS_H
#define KV_ANALYSIS_COMPARE_ROWS_H

#include "analysis/compare/measures.h"
#include "analysis/database/paired.h"
#include "analysis/tables/variants.h"

/* A row: what it is about, as numbers that rise from row to row, and its value.
 * Two methods are compared on a unit: one request (perhaps in several traces),
 * or one question (perhaps put to several models, or on several platforms).
 * Units of one cluster depend on each other: questions about one context. */
typedef struct kv_compare_row {
  int task, cluster, unit, trace; /* trace: or a model on a platform */
  double value;                   /* NaN: none, or refused, or failed */
  double share; /* bytes as a share of dense, in the basis of `at`; NaN: dense
                   did not run */
} kv_compare_row;

typedef struct kv_compare_rows {
  const kv_compared *by; /* the measure, a constant */
  const char *at;        /* the budget as typed, "mean:20%"; the caller's */
  kv_grid g;     /* rows of the view `cell`, or of evaluations, with the columns
                    method, params, asked ("": has no budget), status, reason,
                    kl */
  kv_variants v; /* the variant, and thereby the name, of each row's method */
  kv_compare_row *row; /* [g.rows + 1], the last with other numbers */
  int clusters;
} kv_compare_rows;

/* Reads the rows at that budget, and rows of methods without a budget; of
 * right answers only those of measurable tasks (answers.sql). Returns an exit
 * code (analysis/database/say.h): KV_EXIT_USAGE if no row has the budget; the
 * message lists those in the database. Free *out, also after a failure. */
int kv_compare_rows_find(sqlite3 *db, const kv_compared *by, const char *at,
                         kv_compare_rows *out);
/* The same, without a message if there are none. refused: also rows that were
 * refused or failed, which have no value. */
int kv_compare_rows_all(sqlite3 *db, const kv_compared *by, const char *at,
                        bool refused, kv_compare_rows *out);
void kv_compare_rows_free(kv_compare_rows *x); /* accepts zeroed */

/* Sets *variant to the number in x->v of the method that text names: its name
 * in tables, or a method with enough parameters to identify it,
 * "quest:page=16". KV_EXIT_USAGE, with a list, if there is none or several. */
int kv_compare_rows_name(const kv_compare_rows *x, const char *text,
                         int *variant);

/* The pairs of variants a and b: units on which both have a value. A unit of
 * several traces counts by its means over the traces that both have. b of -1:
 * the values of a alone. */
typedef struct kv_pairs {
  int n, units;    /* clusters, and units in them */
  kv_cluster *c;   /* [n] of a's values minus b's, in the measure's unit; the
                      caller's, allocated for x->clusters */
  double share[2]; /* mean bytes over the pairs as a share of dense, for a and
                      for b; NaN: unknown */
} kv_pairs;
/* Fills in *out; the caller has set c. Cannot fail. */
void kv_compare_rows_pair(const kv_compare_rows *x, int a, int b,
                          kv_pairs *out);

/* Are bytes equal within 10 %? False for NaN. */
bool kv_compare_same_bytes(const double share[2]);

/* Does the measure place `random` below `oracle-evict`, the best choice of as
 * many entries, at equal bytes? A measure of attention that does not cannot
 * tell good methods from bad ones. */
typedef enum kv_trust {
  KV_TRUST_NONE,    /* not needed: right answers, and other answers */
  KV_TRUST_CHECKED, /* it does, on the traces that both have */
  KV_TRUST_UNKNOWN, /* one of them did not run at these bytes */
  KV_TRUST_REFUSED  /* it does not, so there must be no verdict */
} kv_trust;
/* Sets *out. False: no memory. */
bool kv_compare_rows_trust(const kv_compare_rows *x, kv_trust *out);

#endif
