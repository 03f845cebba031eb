/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of `kvreplay tune` share: the search, the rows of its points,
 * and those of the traces that are held out.
 */
#ifndef KV_SIM_COMMANDS_TUNE_H
#define KV_SIM_COMMANDS_TUNE_H

#include "sim/commands/job.h"
#include "sim/commands/options_tune.h"

typedef struct kv_tuning {
  kv_tune_options options; /* first */
  kv_job of;
  kv_cells_options now; /* what the job runs: traces and points of a round */
  char doing[80];       /* text before the progress bar */
  kv_tune_search search;
  kv_tune_judgement *judged, *held; /* [options.probes]; held: of the front */
  kv_result *row, *held_row;        /* [options.probes][traces] */
  int *front, n_front;
  int recalled;        /* probes of which the database had every row */
  int done;            /* probes whose rows are all there */
  int failed, refused; /* probes */
} kv_tuning;

/* tune_round.c: replays n points, which[i] of the search, on every trace of
 * `traces`; row: [points of the search][traces] is filled at these points.
 * *had: how many points the database had whole. */
kv_rc kv_tuning_replay(kv_tuning *s, const kv_list *traces, int n,
                       const int *which, kv_result *row, int *had,
                       bool *stopped, kv_err *e);

/* tune_report.c: writes the front to standard output, and the best. */
kv_rc kv_tuning_report(kv_tuning *s, kv_err *e);
/* Says why there is no best, or what is wrong with it: the exit code. */
int kv_tuning_conclude(const kv_tuning *s);

#endif
