/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers "which method is best?" from a database. At each size that was
 * requested in bytes (-b mean:20%, traffic:20%), ranks the methods with equal
 * bytes by the measure that ranks a model's answers best: the largest error of
 * an element of the output (analysis/README.md, "What ranks answers"). The same
 * for evaluations, by right answers (closed.h). `kvreport answer` prints it,
 * and the page begins with it.
 *
 * Call kv_answer_find after kv_results_open, read, free. Cost: a query and,
 * from KV_PAIRS_LEAST traces on, for each size a comparison of the best with
 * each other method (paired.h). All comparisons are one family (Holm).
 */
#ifndef KV_ANALYSIS_ANSWER_H
#define KV_ANALYSIS_ANSWER_H

#include "analysis/compare/rows.h"

#include <stddef.h>

/* A method's standing at a size. */
typedef enum kv_answer_place {
  KV_ANSWER_EQUAL, /* its mean bytes are the size's, or at most 10 % fewer */
  KV_ANSWER_SOME,  /* the same, but only on some traces: not ranked */
  KV_ANSWER_OWN,   /* other bytes: no budget, or no value of it comes closer */
  KV_ANSWER_NONE   /* it cannot hold or read so little, or failed */
} kv_answer_place;

/* A method at a size. */
typedef struct kv_answer_row {
  const char *method; /* its name in tables, with what distinguishes variants;
                         owned by the size's x */
  int variant;        /* its number in the size's x */
  kv_answer_place place;
  bool baseline; /* a baseline (dense, window, random, replay and oracles):
                    never the best */
  bool alike;    /* EQUAL: the best, or not significantly worse; without a
                    verdict (kv_answer_size) only the best */
  int traces;    /* traces, or questions, with a value; traces of one request
                    count once */
  double value;  /* mean of the measure over them, of several tasks the mean of
                    their means; NaN: none */
  double low, high; /* its 95 % interval; NaN: none */
  kv_paired found;  /* the best against it, if compared */
  double p;         /* of that, after Holm's correction; NaN: not compared */
  double share;    /* bytes held, or read and scanned, as a share of dense: mean
                      over the size's traces that it ran on. NONE: of its
                      smallest value, on the trace where that is largest. NaN:
                      unknown */
  double kl;       /* mean over these */
  const char *why; /* NONE: the reason on one trace; else "" */
} kv_answer_row;

/* One size. Rows: EQUAL, then SOME, OWN and NONE, each with the best first. */
typedef struct kv_answer_size {
  kv_compare_rows x; /* its rows of the view `cell`; x.at is "mean:20%" */
  bool reads;        /* bytes read and scanned; false: bytes held */
  double share;      /* requested bytes as a share of dense, 0.2 */
  bool entries;      /* not requested in bytes: share is the methods' median */
  int traces, contexts, tasks; /* traces or questions on which any method has a
                                  value; clusters of them; tasks */
  int tests;      /* comparisons of the best with others; 0: no verdict */
  bool able;      /* so many traces can show a difference in all tests */
  double detects; /* of evaluations with tests: the difference that they detect
                     (kv_paired_detectable), for the rival that differs on most
                     questions */
  double margin;  /* p, after Holm's correction, of the best being KV_MARGIN
                     worse than dense, if so many contexts can show it */
  kv_trust trust; /* KV_TRUST_REFUSED: no tests */
  int best;       /* index of a row; -1: only baselines are EQUAL */
  int n;
  kv_answer_row *row; /* [n] */
} kv_answer_size;

typedef struct kv_answer {
  const kv_compared *by; /* the measure: output_abs_max or exact_match */
  int tests;             /* at all sizes */
  int sizes;
  kv_answer_size *size; /* [sizes] those held, then those read, ascending */
  kv_grid asked;        /* owns the texts of x.at */
  kv_grid repeated;     /* the view `repeated`: traces that count as one */
} kv_answer;

/* Returns an exit code (analysis/database/say.h), KV_EXIT_OK also without any
 * size. Free *out with kv_answer_free, also after a failure. */
int kv_answer_find(sqlite3 *db, kv_answer *out);
/* The same for evaluations, by right answers, after kv_results_answers. Sizes
 * in bytes come first, then budgets in entries. */
int kv_answer_find_right(sqlite3 *db, kv_answer *out);
void kv_answer_free(kv_answer *a); /* accepts zeroed */

/* --- in words --------------------------------------- */

enum { KV_ANSWER_SAID = 4096 };

/* The answer in one sentence, or two without a verdict: which method is best at
 * which size, which others are not significantly worse, what is not covered. If
 * no budget was in bytes: that rows are not comparable, and what to run. */
void kv_answer_say(const kv_answer *a, char out[KV_ANSWER_SAID]);
/* The inverse query: the smallest size at which some method has a KL of at most
 * .1, and the command that searches all methods. "" without any size. */
void kv_answer_say_fewest(const kv_answer *a, char out[KV_ANSWER_SAID]);

/* --- as a table ------------------------------------- */

/* Stores it in the new temporary table `answered_at` of the connection, of
 * evaluations `closed_all`, a row per size and method: basis, asked, reads,
 * size (0.2; null: entries), rank (0 first), method, baseline, place (equal,
 * some, own, none), alike, measure, traces, value, share, kl, reason, shown
 * (kv_answer_ask), low, high, contexts, tasks, verdict (a phrase, perhaps '').
 * Returns an exit code. */
int kv_answer_put(sqlite3 *db, const kv_answer *a);
/* Queries that table for people: a row per method and a column per size, for
 * sizes held, or read (of evaluations for all); the best at the middle size
 * first. A cell is the value; "0.93 (34%)" at other bytes, "0.93 (3 of 4)" on
 * some traces, "from 35%" if that is the smallest it can reach. No rows without
 * such a size. */
int kv_answer_ask(sqlite3 *db, const kv_answer *a, bool reads, kv_grid *out);
extern const char kv_answer_marks[]; /* the sentence that explains the cells */

#endif
