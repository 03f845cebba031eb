/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of `kvreplay tune` share: the search of each method, the rows
 * of its points, and what is printed of them. command_tune.c has the order: for
 * each method kv_tuning_method, then one of the reports, then its conclusion;
 * kv_tuned_free for each. All calls come from one thread; memory: a kv_result
 * for each probe and trace.
 */
#ifndef KV_SIM_COMMANDS_TUNE_H
#define KV_SIM_COMMANDS_TUNE_H

#include "sim/cli/job.h"
#include "sim/cli/options_cells.h"
#include "sim/cli/show/goal.h"
#include "sim/cli/show/rows.h"
#include "sim/run/tune/space.h"

/* Options of the command, zeroed before parsing. The option table fills what
 * was typed; kv_tune_options_check, called before any trace is opened, makes
 * the rest: the ranges to search of each method, and what is asked of its
 * points. */
typedef struct kv_tune_options {
  kv_cells_options cells;    /* first: sim/cli/options_cells.h; made: its
                                specs are `corner` */
  kv_list hold_out;          /* paths of traces that are not tuned on */
  kv_list search_text;       /* ranges as typed: "window=8:64:8" */
  kv_list at_most, at_least; /* bounds as typed: "output_error=0.3" */
  const char *least, *most;  /* the measure to make small, or large; exactly one
                                of them was typed */
  int probes; /* most points of each method, 1 to KV_TUNE_MOST; made: not typed,
                 KV_TUNE_PROBES */
  int format; /* a kv_row_format */
  const char *backend_text;  /* as typed; NULL: ref */
  const kv_backend *backend; /* made: what it names */
  int methods;               /* made: how many -m names */
  kv_tune_space *space; /* [methods] made: what is searched through of each */
  char **corner;     /* [methods] made: specifications of the points that have
                        every range at its first value */
  kv_tune_goal goal; /* made: the measure and its bounds */
} kv_tune_options;

enum { KV_TUNE_PROBES = 100 }; /* points, unless --probes says how many */

/* Fills what is `made` from what was typed, after kv_options_parse; methods are
 * looked up in `registry`, then among plugins. KV_USAGE: options contradict
 * each other, a range or a measure is wrong, nothing is searched, a trace is
 * named twice, or a file to write is one that a method comes from; KV_INPUT: a
 * plugin, or a file of budgets, is bad; KV_RESOURCE: memory, or the backend
 * cannot be used here. Free with kv_tune_options_free, also after a failure. */
kv_rc kv_tune_options_check(kv_registry *registry, kv_tune_options *o,
                            kv_err *e);
void kv_tune_options_free(kv_tune_options *o); /* accepts zeroed */

/* One method's search. A point is one value for each axis of the space; a probe
 * is its replay on every trace. [options.probes] arrays are indexed by the
 * point's number in the search. */
typedef struct kv_tuned {
  kv_tune_space *space;      /* what is searched through; of the options */
  kv_tune_search search;     /* its points, scores and end */
  kv_tune_judgement *judged; /* [options.probes] by the traces tuned on */
  kv_tune_judgement *held;   /* [options.probes] by those held out, of points of
                                the front alone */
  kv_result *row;      /* [options.probes][traces] without digests of layers */
  kv_result *held_row; /* [options.probes][traces held out], as `held` */
  int *front, n_front; /* [n_front] points that no other is better than, the
                          best first; of several methods the best alone */
  int recalled;        /* probes of which the database had every row */
  int done;            /* probes whose rows are all there */
  int failed, refused; /* probes that could not be judged, by reason */
} kv_tuned;

/* The struct of the command. */
typedef struct kv_tuning {
  kv_tune_options options; /* first */
  kv_job of;               /* opened anew for each round */
  kv_cells_options now;    /* what the job runs: traces and points of a round */
  char doing[160];         /* text before the progress bar */
  int whole;               /* methods that are done */
  kv_tuned *method;        /* [options.methods] */
} kv_tuning;

/* True if the point could be judged and is within every bound. */
static inline bool kv_tune_met(const kv_tune_judgement *j) {
  return j->score.ran && j->score.far == 0;
}

/* --- tune_round.c ------------------------------------------ */

/* Searches through one method, finds its front and judges that by what was held
 * out. *m is zeroed but for its space; free it with kv_tuned_free, also after a
 * failure. *stopped: an interrupt ended it. KV_INPUT: a trace is bad;
 * KV_RESOURCE: memory, database or backend. */
kv_rc kv_tuning_method(kv_tuning *s, kv_tuned *m, bool *stopped, kv_err *e);
void kv_tuned_free(const kv_tuning *s, kv_tuned *m); /* accepts zeroed */
/* One round: replays n points, which[i] (numbers in the method's search), on
 * every trace of `traces`; row: [points of the search][traces] is filled at
 * these points. *had: how many points the database had whole. *stopped and
 * errors as above; rows are then missing. */
kv_rc kv_tuning_replay(kv_tuning *s, const kv_tuned *m, const kv_list *traces,
                       int n, const int *which, kv_result *row, int *had,
                       bool *stopped, kv_err *e);

/* --- tune_report.c: of one method, of several --------------- */

/* Print what was found, once every method is done: rows or a table on standard
 * output, and the best point by kv_tuning_best. The second also says why a
 * method does not meet what was asked: in its table, or, where rows are for
 * programs, on standard error unless quiet. KV_RESOURCE: memory, or standard
 * output cannot be written. */
kv_rc kv_tuning_report(const kv_tuning *s, kv_err *e);
kv_rc kv_tuning_report_all(const kv_tuning *s, kv_err *e);
/* Say on standard error why there is no best, or what is wrong with it, and
 * return the exit code: KV_OK; KV_DIFFERENT where no point meets what was
 * asked, here or on held-out traces, or a row of the database differs; where
 * none could be judged KV_INPUT if one of the method, of several the first of
 * -m, failed, else KV_USAGE; KV_RESOURCE: memory. */
int kv_tuning_conclude(const kv_tuning *s);
int kv_tuning_conclude_all(const kv_tuning *s);

/* --- what both reports write -------------------------------- */

enum { KV_TUNE_WORDS = 512 }; /* bytes of a sentence; a longer one is cut */

/* Prints a table of text on standard output, columns aligned, the first one to
 * the left: `cell` writes the text of row 0 .. rows - 1, or of the heading (row
 * -1), in column 0 .. columns - 1, at most KV_TUNE_COLUMNS; of: for `cell`. */
enum { KV_TUNE_CELL = 96, KV_TUNE_COLUMNS = 32 };
typedef void kv_tuning_cell(const void *of, int row, int column,
                            char out[KV_TUNE_CELL]);

#endif
