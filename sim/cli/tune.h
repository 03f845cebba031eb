/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of `kvreplay tune`: the search of each method, the rows
 * of its points, and their output. command_tune.c has the order: for each
 * method kv_tuning_method, then one of the reports, then its conclusion;
 * kv_tuned_free for each. All calls come from one thread. Memory: a kv_result
 * for each probe and trace.
 */
#ifndef KV_SIM_COMMANDS_TUNE_H
#define KV_SIM_COMMANDS_TUNE_H

#include "sim/cli/job.h"
#include "sim/cli/options_cells.h"
#include "sim/cli/show/goal.h"
#include "sim/cli/show/rows.h"
#include "sim/run/tune/space.h"

/* Options of the command, zeroed before parsing. The option table fills in what
 * was typed. kv_tune_options_check, called before any trace is opened, fills in
 * what is `made`. */
typedef struct kv_tune_options {
  kv_cells_options cells;    /* first: sim/cli/options_cells.h; made: its specs
                                are `corner` */
  kv_list hold_out;          /* paths of traces that are not tuned on */
  kv_list search_text;       /* ranges as typed: "window=8:64:8" */
  kv_list at_most, at_least; /* bounds as typed: "output_error=0.3" */
  const char *least, *most;  /* the measure to minimise, or to maximise; exactly
                                one of them is typed */
  int probes; /* most points of each method, 1 to KV_TUNE_MOST; made:
                 KV_TUNE_PROBES if not typed */
  int format; /* a kv_row_format */
  const char *backend_text;  /* as typed; NULL: ref */
  const kv_backend *backend; /* made: the backend of that name */
  int methods;               /* made: methods named by -m */
  kv_tune_space *space;      /* [methods] made: the space to search */
  char **corner;     /* [methods] made: specifications of the points with every
                        range at its first value */
  kv_tune_goal goal; /* made: the measure and its bounds */
} kv_tune_options;

enum { KV_TUNE_PROBES = 100 }; /* points, unless --probes says how many */

/* Fills in what is `made` from what was typed, after kv_options_parse. Methods
 * are looked up in `registry`, then among plugins. KV_USAGE: options contradict
 * each other, a range or a measure is wrong, nothing is searched, a trace is
 * named twice, or a method comes from a file to be written. KV_INPUT: a plugin,
 * or a file of budgets, is bad. KV_RESOURCE: memory, or the backend cannot be
 * used here. Free with kv_tune_options_free, also after a failure. */
kv_rc kv_tune_options_check(kv_registry *registry, kv_tune_options *o,
                            kv_err *e);
void kv_tune_options_free(kv_tune_options *o); /* accepts zeroed */

/* One method's search. A point is one value for each axis of the space; a probe
 * is its replay on every trace. Arrays of [options.probes] are indexed by the
 * point's number in the search. */
typedef struct kv_tuned {
  kv_tune_space *space;      /* of the options */
  kv_tune_search search;     /* its points, scores and end */
  kv_tune_judgement *judged; /* [options.probes] on the traces tuned on */
  kv_tune_judgement *held;   /* [options.probes] on those held out; only points
                                of the front */
  kv_result *row;      /* [options.probes][traces] without digests of layers */
  kv_result *held_row; /* [options.probes][held-out traces], as `held` */
  int *front, n_front; /* [n_front] points that no other beats, the best first;
                          with several methods only the best */
  int recalled;        /* probes whose rows were all in the database */
  int done;            /* probes whose rows are complete */
  int failed, refused; /* probes that could not be judged, by reason */
} kv_tuned;

typedef struct kv_tuning {
  kv_tune_options options; /* first */
  kv_job of;               /* opened anew for each round */
  kv_cells_options now;    /* what the job runs: traces and points of a round */
  char doing[160];         /* text before the progress bar */
  int whole;               /* methods that are done */
  kv_tuned *method;        /* [options.methods] */
} kv_tuning;

/* Could the point be judged, and is it within every bound? */
static inline bool kv_tune_met(const kv_tune_judgement *j) {
  return j->score.ran && j->score.far == 0;
}

/* --- tune_round.c ------------------------------------------ */

/* Searches one method, finds its front and judges that on the held-out traces.
 * *m is zeroed except its space; free it with kv_tuned_free, also after a
 * failure. *stopped: an interrupt ended it. KV_INPUT: a trace is bad.
 * KV_RESOURCE: memory, database or backend. */
kv_rc kv_tuning_method(kv_tuning *s, kv_tuned *m, bool *stopped, kv_err *e);
void kv_tuned_free(const kv_tuning *s, kv_tuned *m); /* accepts zeroed */
/* One round: replays n points, which[i] (numbers in the method's search), on
 * every trace of `traces`, and fills in row, [points of the search][traces], at
 * these points. *had: how many points were complete in the database. *stopped
 * and errors as above; rows are then missing. */
kv_rc kv_tuning_replay(kv_tuning *s, const kv_tuned *m, const kv_list *traces,
                       int n, const int *which, kv_result *row, int *had,
                       bool *stopped, kv_err *e);

/* --- tune_report.c ------------------------------------------ */

/* Print the results once every method is done: rows or a table on standard
 * output, and the best point as a command line. The second also says why a
 * method misses the goal: in its table, or, if rows are for programs, on
 * standard error unless quiet. KV_RESOURCE: memory, or standard output cannot
 * be written. */
kv_rc kv_tuning_report(const kv_tuning *s, kv_err *e);
kv_rc kv_tuning_report_all(const kv_tuning *s, kv_err *e);
/* Print on standard error why there is no best, or what is wrong with it, and
 * return the exit code. KV_OK. KV_DIFFERENT if no point meets the goal, here or
 * on held-out traces, or a row of the database differs. If no point could be
 * judged: KV_INPUT if a probe of the method failed (of several, the first of
 * -m), else KV_USAGE. KV_RESOURCE: memory. */
int kv_tuning_conclude(const kv_tuning *s);
int kv_tuning_conclude_all(const kv_tuning *s);

/* --- tables ------------------------------------------------- */

enum { KV_TUNE_WORDS = 512 }; /* bytes of a sentence; a longer one is cut */

/* Writes a cell of a table of text: row 0 .. rows - 1, or the heading (row -1),
 * in column 0 .. columns - 1, columns <= KV_TUNE_COLUMNS. */
enum { KV_TUNE_CELL = 96, KV_TUNE_COLUMNS = 32 };
typedef void kv_tuning_cell(const void *of, int row, int column,
                            char out[KV_TUNE_CELL]);

#endif
