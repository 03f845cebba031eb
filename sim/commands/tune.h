/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of `kvreplay tune` share: the search, the rows of its points,
 * and those of the traces that are held out.
 */
#ifndef KV_SIM_COMMANDS_TUNE_H
#define KV_SIM_COMMANDS_TUNE_H

#include "sim/commands/job.h"
#include "sim/commands/options_tune.h"

/* One method. */
typedef struct kv_tuned {
  kv_tune_space *space; /* of the options */
  kv_tune_search search;
  kv_tune_judgement *judged, *held; /* [options.probes]; held: of the front */
  kv_result *row, *held_row;        /* [options.probes][traces] */
  int *front, n_front;              /* of several methods the best alone */
  int recalled;        /* probes of which the database had every row */
  int done;            /* probes whose rows are all there */
  int failed, refused; /* probes */
} kv_tuned;

typedef struct kv_tuning {
  kv_tune_options options; /* first */
  kv_job of;
  kv_cells_options now; /* what the job runs: traces and points of a round */
  char doing[160];      /* text before the progress bar */
  int whole;            /* methods that are done */
  kv_tuned *method;     /* [options.methods] */
} kv_tuning;

static inline bool kv_tune_met(const kv_tune_judgement *j) {
  return j->score.ran && j->score.far == 0;
}

/* --- tune_round.c --------------------------------------------------------- */

/* Replays n points, which[i] of the method's search, on every trace of
 * `traces`; row: [points of the search][traces] is filled at these points.
 * *had: how many points the database had whole. */
kv_rc kv_tuning_replay(kv_tuning *s, const kv_tuned *m, const kv_list *traces,
                       int n, const int *which, kv_result *row, int *had,
                       bool *stopped, kv_err *e);

/* --- tune_method.c -------------------------------------------------------- */

/* Searches through one method and judges it by what was held out. */
kv_rc kv_tuning_method(kv_tuning *s, kv_tuned *m, bool *stopped, kv_err *e);
void kv_tuned_free(const kv_tuning *s, kv_tuned *m); /* accepts zeroed */

/* --- tune_words.c --------------------------------------------------------- */

enum { KV_TUNE_WORDS = 512 };

/* "output_error.mean 0.031 (at most 0.05), bytes.mean 9216" */
void kv_tuning_describe(const kv_tune_goal *g, const kv_tune_judgement *j,
                        char out[KV_TUNE_WORDS]);
/* Why a point has no score: "h2o:recent=4 on chat: REASON". row: its rows. */
void kv_tuning_why(const kv_tuning *s, const kv_tuned *m, int at,
                   const kv_tune_judgement *j, const kv_result *row,
                   char out[KV_TUNE_WORDS]);
/* Rows of the fronts of n methods, of[0] first, as `run` writes them. */
kv_rc kv_tuning_rows(const kv_tuning *s, int n, const kv_tuned *const *of,
                     kv_err *e);
/* A table of as many rows and columns, the first column to the left: cell
 * writes one, row -1 is the heading. */
enum { KV_TUNE_CELL = 96, KV_TUNE_COLUMNS = 32 };
typedef void kv_tuning_cell(const void *of, int row, int column,
                            char out[KV_TUNE_CELL]);
void kv_tuning_table(const void *of, int rows, int columns,
                     kv_tuning_cell *cell);
/* The best as a command line: to be pasted, on standard output behind "best:",
 * or, where rows are for programs, a remark. */
kv_rc kv_tuning_best(const kv_tuning *s, const kv_tuned *m, kv_err *e);

/* --- tune_report.c: of one method; tune_table.c: of several --------------- */

/* Writes rows to standard output, and the best. */
kv_rc kv_tuning_report(const kv_tuning *s, kv_err *e);
kv_rc kv_tuning_report_all(const kv_tuning *s, kv_err *e);
/* Says why there is no best, or what is wrong with it: the exit code. */
int kv_tuning_conclude(const kv_tuning *s);
int kv_tuning_conclude_all(const kv_tuning *s);

#endif
