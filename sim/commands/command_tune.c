/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay tune`: rounds of points (sim/tune/search.h) are replayed and judged
 * until the search ends; then the front is replayed on the traces that were
 * held out, and all is printed.
 */
#include "sim/commands/commands.h"

#include "sim/commands/signal.h"
#include "sim/commands/tune.h"
#include <stdlib.h>

static size_t traces(const kv_tuning *s) {
  return (size_t)s->options.cells.traces.n;
}

static kv_rc prepare(kv_tuning *s, kv_err *e) {
  const kv_tune_space *space = &s->options.space;
  size_t n = (size_t)s->options.probes;
  size_t rows = n * traces(s), held = n * (size_t)s->options.hold_out.n;
  int size[KV_TUNE_AXES];
  for (int i = 0; i < space->axes; i++) size[i] = space->axis[i].points;
  s->judged = kv_zalloc(n, sizeof *s->judged);
  s->held = kv_zalloc(n, sizeof *s->held);
  s->row = kv_zalloc(rows, sizeof *s->row);
  s->held_row = kv_zalloc(held + 1, sizeof *s->held_row);
  s->front = kv_zalloc(n, sizeof *s->front);
  if (!s->judged || !s->held || !s->row || !s->held_row || !s->front)
    return kv_no_memory(e, "rows of points", (rows + held) * sizeof *s->row);
  return kv_tune_search_open(space->axes, size, s->options.probes, &s->search,
                             e);
}

/* --- the search ----------------------------------------------------------- */

static void judge(kv_tuning *s, int at) {
  const kv_result *row = &s->row[(size_t)at * traces(s)];
  kv_tune_judgement *j = &s->judged[at];
  *j = kv_tune_judge(&s->options.goal, (int)traces(s), row);
  s->search.point[at].score = j->score;
  if (j->measure >= 0 || j->lacks < 0) return;
  s->failed += row[j->lacks].status == KV_CELL_FAILED;
  s->refused += row[j->lacks].status == KV_CELL_REFUSED;
}

static kv_rc look(kv_tuning *s, int first, int *which, bool *stopped,
                  kv_err *e) {
  int n = s->search.n - first, had;
  for (int i = 0; i < n; i++) which[i] = first + i;
  snprintf(s->doing, sizeof s->doing, "probes %d to %d of at most %d",
           first + 1, s->search.n, s->options.probes);
  kv_rc rc = kv_tuning_replay(s, &s->options.cells.traces, n, which, s->row,
                              &had, stopped, e);
  if (rc || *stopped) return rc;
  for (int i = first; i < s->search.n; i++) judge(s, i);
  s->recalled += had;
  s->done = s->search.n;
  return KV_OK;
}

static kv_rc search(kv_tuning *s, bool *stopped, kv_err *e) {
  int first, *which = kv_zalloc((size_t)s->options.probes, sizeof *which);
  kv_rc rc = which ? KV_OK : kv_no_memory(e, "points", sizeof *which);
  while (!rc && !*stopped && kv_tune_search_next(&s->search, &first)) {
    rc = look(s, first, which, stopped, e);
    if (kv_interrupted()) *stopped = true;
  }
  free(which);
  return rc;
}

/* What was not tuned on judges the front. */
static kv_rc hold_out(kv_tuning *s, bool *stopped, kv_err *e) {
  const kv_list *held = &s->options.hold_out;
  int had;
  if (!held->n || !s->n_front) return KV_OK;
  snprintf(s->doing, sizeof s->doing, "%d points on held-out traces",
           s->n_front);
  kv_rc rc = kv_tuning_replay(s, held, s->n_front, s->front, s->held_row, &had,
                              stopped, e);
  if (rc || *stopped) return rc;
  for (int i = 0; i < s->n_front; i++) {
    int at = s->front[i];
    s->held[at] =
        kv_tune_judge(&s->options.goal, held->n, &s->held_row[at * held->n]);
  }
  return KV_OK;
}

/* --- the calls of a command ----------------------------------------------- */

static void begin(void *self, int argc, char **argv) {
  kv_job_begin(&((kv_tuning *)self)->of, argc, argv);
}

static kv_rc check(void *self, kv_err *e) {
  return kv_tune_options_check(kv_method_at, &((kv_tuning *)self)->options, e);
}

static void interrupted(void *self) {
  const kv_tuning *s = self;
  char note[240];
  snprintf(note, sizeof note,
           "interrupted: %d of at most %d probes are done; %s", s->done,
           s->options.probes,
           s->of.db ? "repeat the command: what is stored is not run again"
                    : "with --db FILE a repeated command goes on from here");
  kv_note(note);
}

/* Said from another thread when a method does not return
 * (sim/commands/signal.h). */
static void last_words(void *self) {
  kv_tuning *s = self;
  kv_progress_wipe(&s->of.progress);
  interrupted(s);
}

static void say_recalled(const kv_tuning *s) {
  char note[120];
  if (s->options.cells.quiet || !s->recalled) return;
  snprintf(note, sizeof note, "%d of %d probes were in the database",
           s->recalled, s->done);
  kv_note(note);
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  kv_tuning *s = self;
  kv_rc rc = prepare(s, e);
  s->now = s->options.cells;
  s->now.specs = (kv_specs){0};
  if (!rc) rc = kv_job_start(&s->now, true, &s->of, e);
  if (rc) return rc;
  kv_stop_words(last_words, s);
  rc = search(s, stopped, e);
  if (!rc && !*stopped)
    s->n_front =
        kv_tune_front(&s->options.goal, &s->search, s->judged, s->front);
  if (!rc && !*stopped) rc = hold_out(s, stopped, e);
  kv_stop_words(NULL, NULL);
  if (rc && kv_interrupted()) *stopped = true;
  if (rc || *stopped) return rc;
  say_recalled(s);
  return kv_tuning_report(s, e);
}

static int conclude(void *self) { return kv_tuning_conclude(self); }

static void free_rows(kv_result *row, size_t n) {
  for (size_t i = 0; row && i < n; i++) kv_result_free(&row[i]);
  free(row);
}

static void clean(void *self) {
  kv_tuning *s = self;
  size_t n = (size_t)s->options.probes;
  kv_job_close(&s->of);
  free_rows(s->row, n * traces(s));
  free_rows(s->held_row, n * (size_t)s->options.hold_out.n);
  kv_tune_search_free(&s->search);
  free(s->judged);
  free(s->held);
  free(s->front);
  kv_tune_options_free(&s->options);
}

const kv_task kv_task_tune = {sizeof(kv_tuning), begin,    check, work,
                              interrupted,       conclude, clean};
