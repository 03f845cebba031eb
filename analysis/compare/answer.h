/* SPDX-License-Identifier: Apache-2.0
 *
 * What a database answers to "which method is best?": at each size that bytes
 * were asked for in (-b mean:20%, traffic:20%), the methods whose bytes are
 * equal, by the measure that ranks what a model answers: needle where traces
 * mark their answer, else the 99th percentile of the largest difference of an
 * output's coordinate (analysis/README.md, what ranks answers). Of cells, not
 * of evaluations. `kvreport answer` prints it, the page begins with it.
 *
 * Call kv_answer_find after kv_results_open, read, free. Cost: a query and, of
 * at least KV_PAIRS_LEAST traces, a comparison of the best with each other
 * method (paired.h) for each size.
 */
#ifndef KV_ANALYSIS_ANSWER_H
#define KV_ANALYSIS_ANSWER_H

#include "analysis/compare/rows.h"

/* How a method stands at a size. */
typedef enum kv_answer_place {
  KV_ANSWER_EQUAL, /* its mean bytes are the size's, at most a tenth fewer */
  KV_ANSWER_SOME,  /* so, but on some of the traces alone: not ranked */
  KV_ANSWER_OWN,   /* at bytes of its own: it has no budget, or one of which
                      no value comes as near */
  KV_ANSWER_NONE   /* it cannot hold or read so little, or has failed */
} kv_answer_place;

/* A method at a size. */
typedef struct kv_answer_row {
  const char *method; /* what a table calls it, with what tells variants of it
                         apart; the size's x owns it */
  int variant;        /* of the size's x */
  kv_answer_place place;
  bool baseline;   /* dense, window, random, replay and oracles: never the
                   best */
  bool alike;      /* EQUAL: the best, or not told from it; without a verdict
                      (kv_answer_size) of the best alone */
  int traces;      /* that it has a value on; those of one request are one */
  double value;    /* its mean over them; NaN: none */
  double share;    /* of dense's bytes: held, or read and scanned, mean over the
                      size's traces that it ran on. NONE: of its least, on the
                      trace where that is most; NaN: unknown */
  double kl;       /* mean over these */
  const char *why; /* NONE: the reason of one trace; else "" */
} kv_answer_row;

/* One size. Rows: EQUAL, the best first, then SOME, OWN and NONE, each so. */
typedef struct kv_answer_size {
  kv_compare_rows x; /* its rows of the view `cell`; x.at "mean:20%" */
  bool reads;        /* bytes read and scanned; else held */
  double share;      /* of dense's bytes that were asked for, 0.2 */
  int traces;        /* that any method has a value on */
  int tests;         /* of the best with others; 0: there is no verdict */
  bool able;         /* so few traces could tell any of that many apart */
  int best;          /* row; -1: no method but baselines is EQUAL */
  int n;
  kv_answer_row *row; /* [n] */
} kv_answer_size;

typedef struct kv_answer {
  const kv_compared *by; /* the measure; needle or output_abs_p99 */
  int sizes;
  kv_answer_size *size; /* [sizes] those held, then those read, ascending */
  kv_grid asked;        /* the texts of x.at */
  kv_grid repeated;     /* of the view `repeated`: which traces count as one */
} kv_answer;

/* Finds it. An exit code (analysis/database/say.h), KV_EXIT_OK also where there
 * is no size; free *out with kv_answer_free, also after a failure. */
int kv_answer_find(sqlite3 *db, kv_answer *out);
void kv_answer_free(kv_answer *a); /* accepts zeroed */

/* --- in words --------------------------------------- */

enum { KV_ANSWER_SAID = 4096 };

/* The answer in one sentence, or two where there is no verdict: which method is
 * best at which size, which others cannot be told from it, what is not covered.
 * Where nothing was asked for in bytes: that rows are not comparable, and what
 * to run. */
void kv_answer_say(const kv_answer *a, char out[KV_ANSWER_SAID]);
/* The same the other way round: who has a needle of at least .9 (or a KL of at
 * most .1) with the fewest bytes, of the sizes that are there, and the command
 * that searches all. "" where there is no size. */
void kv_answer_say_fewest(const kv_answer *a, char out[KV_ANSWER_SAID]);

/* --- as a table ------------------------------------- */

/* Puts it into the new temporary table `answered_at` of the connection, a row a
 * size and method: basis, asked, reads, size (0.2), rank (0 first), method,
 * baseline, place (equal, some, own, none), alike, measure, traces, value,
 * share, kl, reason, shown (kv_answer_ask). An exit code. */
int kv_answer_put(sqlite3 *db, const kv_answer *a);
/* Asks that table for people: of the sizes held, or read, a row a method and a
 * column a size, the best at the middle size first. A cell: the value; "0.93
 * (34%)" at bytes of its own, "0.93 (3 of 4)" of some traces, "from 35%" where
 * that is the least it can. No rows where there is no such size. */
int kv_answer_ask(sqlite3 *db, const kv_answer *a, bool reads, kv_grid *out);
extern const char kv_answer_marks[]; /* the sentence that says so */

#endif
