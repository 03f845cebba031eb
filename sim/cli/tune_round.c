/* SPDX-License-Identifier: Apache-2.0
 *
 * A round of `kvreplay tune`: all its points in one pass over each trace, as
 * cells that `kvreplay run` would have run (sim/cli/tune.h).
 */
#include "sim/cli/tune.h"

#include "sim/cli/signal.h"
#include <stdlib.h>
#include <string.h>

static size_t traces(const kv_tuning *s) {
  return (size_t)s->options.cells.traces.n;
}

static kv_rc prepare(const kv_tuning *s, kv_tuned *m, kv_err *e) {
  const kv_tune_space *space = m->space;
  size_t n = (size_t)s->options.probes;
  size_t rows = n * traces(s), held = n * (size_t)s->options.hold_out.n;
  int size[KV_TUNE_AXES];
  for (int i = 0; i < space->axes; i++) size[i] = space->axis[i].points;
  m->judged = kv_zalloc(n, sizeof *m->judged);
  m->held = kv_zalloc(n, sizeof *m->held);
  m->row = kv_zalloc(rows, sizeof *m->row);
  m->held_row = kv_zalloc(held + 1, sizeof *m->held_row);
  m->front = kv_zalloc(n, sizeof *m->front);
  if (!m->judged || !m->held || !m->row || !m->held_row || !m->front)
    return kv_no_memory(e, "rows of points", (rows + held) * sizeof *m->row);
  return kv_tune_search_open(space->axes, size, s->options.probes, &m->search,
                             e);
}

/* With several methods it begins with "quest, 2 of 5: ". */
static void say_doing(kv_tuning *s, const kv_tuned *m, const char *what) {
  int n = s->options.methods;
  if (n > 1)
    snprintf(s->doing, sizeof s->doing, "%.40s, %d of %d: %s",
             m->space->specs.spec[0].method->name, s->whole + 1, n, what);
  else
    snprintf(s->doing, sizeof s->doing, "%s", what);
}

/* --- the search ---------------------------------------------------------- */

static void judge(const kv_tuning *s, kv_tuned *m, int at) {
  const kv_result *row = &m->row[(size_t)at * traces(s)];
  kv_tune_judgement *j = &m->judged[at];
  *j = kv_tune_judge(&s->options.goal, (int)traces(s), row);
  m->search.point[at].score = j->score;
  if (j->measure >= 0 || j->lacks < 0) return;
  m->failed += row[j->lacks].status == KV_CELL_FAILED;
  m->refused += row[j->lacks].status == KV_CELL_REFUSED;
}

static kv_rc look(kv_tuning *s, kv_tuned *m, int first, int *which,
                  bool *stopped, kv_err *e) {
  int n = m->search.n - first, had;
  char what[80];
  for (int i = 0; i < n; i++) which[i] = first + i;
  snprintf(what, sizeof what, "probes %d to %d of at most %d", first + 1,
           m->search.n, s->options.probes);
  say_doing(s, m, what);
  kv_rc rc = kv_tuning_replay(s, m, &s->options.cells.traces, n, which, m->row,
                              &had, stopped, e);
  if (rc || *stopped) return rc;
  for (int i = first; i < m->search.n; i++) judge(s, m, i);
  m->recalled += had;
  m->done = m->search.n;
  return KV_OK;
}

static kv_rc search(kv_tuning *s, kv_tuned *m, bool *stopped, kv_err *e) {
  int first, *which = kv_zalloc((size_t)s->options.probes, sizeof *which);
  kv_rc rc = which ? KV_OK : kv_no_memory(e, "points", sizeof *which);
  while (!rc && !*stopped && kv_tune_search_next(&m->search, &first)) {
    rc = look(s, m, first, which, stopped, e);
    if (kv_interrupted()) *stopped = true;
  }
  free(which);
  return rc;
}

/* Judges the front on the held-out traces. */
static kv_rc hold_out(kv_tuning *s, kv_tuned *m, bool *stopped, kv_err *e) {
  const kv_list *held = &s->options.hold_out;
  char what[80];
  int had;
  if (!held->n || !m->n_front) return KV_OK;
  snprintf(what, sizeof what, "%d point%s on held-out traces", m->n_front,
           m->n_front > 1 ? "s" : "");
  say_doing(s, m, what);
  kv_rc rc = kv_tuning_replay(s, m, held, m->n_front, m->front, m->held_row,
                              &had, stopped, e);
  if (rc || *stopped) return rc;
  for (int i = 0; i < m->n_front; i++) {
    int at = m->front[i];
    m->held[at] =
        kv_tune_judge(&s->options.goal, held->n, &m->held_row[at * held->n]);
  }
  return KV_OK;
}

/* With several methods only the best point of each stays. */
static void choose(const kv_tuning *s, kv_tuned *m) {
  m->n_front = kv_tune_front(&s->options.goal, &m->search, m->judged, m->front);
  if (s->options.methods > 1 && m->n_front > 1) m->n_front = 1;
}

kv_rc kv_tuning_method(kv_tuning *s, kv_tuned *m, bool *stopped, kv_err *e) {
  kv_rc rc = prepare(s, m, e);
  if (!rc) rc = search(s, m, stopped, e);
  if (rc || *stopped) return rc;
  choose(s, m);
  return hold_out(s, m, stopped, e);
}

static void free_rows(kv_result *row, size_t n) {
  for (size_t i = 0; row && i < n; i++) kv_result_free(&row[i]);
  free(row);
}

void kv_tuned_free(const kv_tuning *s, kv_tuned *m) {
  size_t n = (size_t)s->options.probes;
  free_rows(m->row, n * traces(s));
  free_rows(m->held_row, n * (size_t)s->options.hold_out.n);
  kv_tune_search_free(&m->search);
  free(m->judged);
  free(m->held);
  free(m->front);
  *m = (kv_tuned){0};
}

/* --- round --------------------------------------------------------------- */

/* The specifications of the points. */
static kv_rc specify(kv_tuning *s, const kv_tuned *m, int n, const int *which,
                     kv_err *e) {
  kv_specs *to = &s->now.specs;
  *to = (kv_specs){.spec = kv_zalloc((size_t)n, sizeof *to->spec)};
  if (!to->spec) return kv_no_memory(e, "points", (size_t)n);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < n; i++) {
    const int *at = m->search.point[which[i]].at;
    char *text = kv_tune_space_text(m->space, at);
    rc = text ? kv_spec_parse(kv_method_at, text, &to->spec[to->n], e)
              : kv_no_memory(e, "a specification", 1);
    if (!rc) to->n++;
    free(text);
  }
  return rc;
}

/* Moves the rows of a batch to the rows of the points. */
static void take(kv_batch *b, int trace, int traces, const int *which,
                 kv_result *row) {
  for (int i = 0; i < b->cells; i++) {
    kv_result *to = &row[which[i] * traces + trace];
    *to = b->cell[i].result;
    b->cell[i].result = (kv_result){0};
    kv_result_forget(to);
  }
}

/* What a round finds about a point, over all traces. */
typedef struct found {
  bool runs;     /* on some trace it is not refused */
  bool replayed; /* on some trace it is not in the database */
} found;

/* Replays a trace, except what is in the database. */
static kv_rc compute(kv_tuning *s, int trace, found *point, bool *stopped,
                     kv_err *e) {
  kv_batch *b = &s->of.batch[trace];
  kv_keeper keeper = {0};
  kv_replay_how how = kv_job_how(&s->of, s->options.backend);
  how.fidelity = true;
  how.scores = s->of.db != NULL;
  kv_rc rc = kv_job_put_trace(&s->of, trace, e);
  for (int i = 0; i < b->cells; i++) point[i].runs |= b->cell[i].runs;
  if (!rc && s->of.db) rc = kv_batch_recall(b, s->of.db, e);
  for (int i = 0; i < b->cells; i++) point[i].replayed |= b->cell[i].runs;
  if (!rc) kv_job_keep(&s->of, &how, &keeper);
  if (!rc) rc = kv_job_replay(b, &how, stopped, e);
  kv_keeper_close(&keeper);
  for (int i = 0; !rc && !*stopped && i < b->cells; i++)
    if (b->cell[i].runs || !kv_result_ran(&b->cell[i].result))
      rc = kv_job_put(&s->of, &b->cell[i].result, false, e);
  return rc;
}

kv_rc kv_tuning_replay(kv_tuning *s, const kv_tuned *m, const kv_list *traces,
                       int n, const int *which, kv_result *row, int *had,
                       bool *stopped, kv_err *e) {
  kv_replay_how how = kv_job_how(&s->of, s->options.backend);
  found *point = kv_zalloc((size_t)n, sizeof *point);
  kv_rc rc = point ? specify(s, m, n, which, e) : kv_no_memory(e, "points", 1);
  how.fidelity = true;
  s->now.traces = *traces;
  s->of.identify = s->options.format != KV_ROWS_TABLE;
  if (!rc) rc = kv_job_open(&s->of, &how, e);
  if (!rc)
    kv_progress_start(&s->of.progress, stderr, s->doing, KV_REPLAY_UNIT,
                      kv_job_units(&s->of), s->now.quiet);
  for (int i = 0; !rc && !*stopped && i < traces->n; i++) {
    rc = compute(s, i, point, stopped, e);
    if (!rc && !*stopped) take(&s->of.batch[i], i, traces->n, which, row);
  }
  kv_progress_end(&s->of.progress);
  kv_job_shut(&s->of);
  kv_specs_free(&s->now.specs);
  *had = 0;
  for (int i = 0; point && i < n; i++)
    *had += point[i].runs && !point[i].replayed;
  free(point);
  return rc;
}
