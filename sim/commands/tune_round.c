/* SPDX-License-Identifier: Apache-2.0
 *
 * A round of `kvreplay tune`: all its points in one pass over each trace, as
 * cells that `kvreplay run` would have run (sim/commands/tune.h).
 */
#include "sim/commands/tune.h"

#include "sim/commands/signal.h"
#include <stdlib.h>
#include <string.h>

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

/* What the rows of a batch say moves to the rows of the points. */
static void take(kv_batch *b, int trace, int traces, const int *which,
                 kv_result *row) {
  for (int i = 0; i < b->cells; i++) {
    kv_result *to = &row[which[i] * traces + trace];
    *to = b->cell[i].result;
    b->cell[i].result = (kv_result){0};
    kv_result_forget(to);
  }
}

/* What a round finds of a point, over all traces. */
typedef struct found {
  bool runs;     /* on some trace it is not refused */
  bool replayed; /* on some trace the database does not have it */
} found;

/* Replays a trace, but for what the database has. */
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
