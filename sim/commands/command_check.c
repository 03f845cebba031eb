/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay check`: opens every cell of every trace, replays trace by trace
 * with the first backend and with each other, compares and stores. What was
 * printed or stored is never taken back by what comes later. Where a device has
 * no memory for one of several traces, its cells fail and the others go on.
 */
#include "sim/commands/commands.h"

#include "sim/commands/job.h"
#include "sim/commands/options_check.h"
#include "sim/commands/refusals.h"
#include "sim/commands/signal.h"
#include "sim/compare/compare.h"
#include <string.h>

typedef struct task {
  kv_check_options options;
  kv_job of; /* kernels, database, cells */
  kv_verdicts verdicts;
  bool lacked; /* memory of a device, for some trace */
} task;

static int traces(const task *s) { return s->options.cells.traces.n; }

/* How to replay. Measures are needed for the database only. */
static kv_replay_how how_of(task *s, int backend) {
  kv_replay_how how = kv_job_how(&s->of, s->options.backend[backend]);
  how.fidelity = s->of.db && backend == 0;
  how.scores = true;
  how.paged = s->options.paged;
  how.indices = (kv_indices)s->options.indices;
  return how;
}

static kv_rc open_cells(task *s, kv_err *e) {
  kv_replay_how how = how_of(s, 0);
  return kv_job_open(&s->of, &how, e);
}

/* --- the database ------------------------------------------------------- */

/* Stores the row of another backend. An equal cell gets the first one's
 * measures, since they follow from what was found equal; so does one whose
 * ledger alone differs. A different one is stored as a conflict, without a
 * message, because the verdict reports it. */
static kv_rc put_other(task *s, const kv_verdict *v, const kv_cell *cell,
                       kv_err *e) {
  kv_result r = *v->row;
  const kv_result *got = &cell->result;
  bool differs = v->outcome == KV_DIFFERS;
  if (v->outcome != KV_EQUAL && !differs) return KV_OK;
  if (differs && !v->difference.ledger) return kv_job_put(&s->of, got, true, e);
  r.backend = got->backend;
  r.threads = got->threads;
  r.seconds = got->seconds;
  memcpy(r.isa, got->isa, sizeof r.isa);
  if (differs) {
    r.totals = got->totals;
    r.step = got->step;
  }
  return kv_job_put(&s->of, &r, differs, e);
}

/* --- one trace ---------------------------------------------------------- */

/* Replays a batch. If the device has no memory for it, has not failed and there
 * are other traces, *lacks: only its cells fail. */
static kv_rc replay(task *s, kv_batch *b, const kv_replay_how *how, bool *lacks,
                    bool *stopped, kv_err *e) {
  kv_err why = {0};
  bool (*lacked)(void) = how->backend->lacked;
  kv_rc rc = kv_job_replay(b, how, stopped, &why);
  *lacks = rc == KV_RESOURCE && traces(s) > 1 && lacked && lacked();
  if (!*lacks) return rc ? kv_fail(e, rc, "%s", why.text) : KV_OK;
  s->lacked = true;
  kv_batch_fail(b, &why);
  kv_job_tell(&s->of, why.text);
  return KV_OK;
}

/* `lacks`: the other backend had no memory for the trace. */
static kv_rc judge(task *s, const kv_cell *a, const kv_cell *b, int backend,
                   bool lacks, bool *stopped, kv_err *e) {
  const kv_backend *const *all = s->options.backend;
  kv_compared x = {a, all[0]}, y = {b, all[backend]};
  kv_verdict v = {.row = &a->result,
                  .first = all[0]->name,
                  .backend = all[backend]->name,
                  .outcome = KV_EQUAL};
  kv_rc rc = KV_OK;
  if (a->result.status == KV_CELL_REFUSED) {
    v.outcome = KV_NOT_RUN;
  } else if (a->result.status == KV_CELL_FAILED) {
    v.outcome = KV_GAVE_UP;
    kv_compare_failed(&x, &y, &v.difference);
  } else if (!kv_backend_has(all[backend], b->spec.method)) {
    v.outcome = KV_NOT_RUN;
    v.absent = true;
  } else if (lacks) {
    v.outcome = KV_GAVE_UP;
    kv_compare_failed(&x, &y, &v.difference);
  } else {
    kv_stop_cut(true);
    rc = kv_compare_cells(&x, &y, kv_interrupted, stopped, &v.difference, e);
    kv_stop_cut(false);
    if (v.difference.found) v.outcome = KV_DIFFERS;
  }
  if (rc || *stopped) return rc;
  rc = put_other(s, &v, b, e);
  return rc ? rc : kv_verdicts_add(&s->verdicts, &v, e);
}

/* Replays a batch on another backend; what failed on the first may fail here
 * too, or not. */
static kv_rc other(task *s, const kv_batch *b, int backend, bool *stopped,
                   kv_err *e) {
  kv_batch second = {0};
  bool lacks = false;
  kv_replay_how how = how_of(s, backend);
  kv_rc rc = kv_batch_again(b, s->of.kernels, NULL, &second, e);
  for (int i = 0; !rc && i < b->cells; i++)
    second.cell[i].runs =
        b->cell[i].result.status != KV_CELL_REFUSED &&
        kv_backend_has(how.backend, second.cell[i].spec.method);
  if (!rc) rc = replay(s, &second, &how, &lacks, stopped, e);
  for (int i = 0; !rc && !*stopped && i < b->cells; i++)
    rc = judge(s, &b->cell[i], &second.cell[i], backend, lacks, stopped, e);
  kv_batch_close(&second);
  return rc;
}

static kv_rc check_trace(task *s, int at, bool *stopped, kv_err *e) {
  kv_batch *b = &s->of.batch[at];
  kv_replay_how how = how_of(s, 0);
  bool lacks = false; /* then there are no rows to store */
  kv_rc rc = replay(s, b, &how, &lacks, stopped, e);
  if (!rc && !*stopped) rc = kv_job_put_trace(&s->of, at, e);
  for (int i = 0; !rc && !*stopped && !lacks && i < b->cells; i++)
    rc = kv_job_put(&s->of, &b->cell[i].result, false, e);
  for (int i = 1; !rc && !*stopped && i < s->options.backends; i++)
    rc = other(s, b, i, stopped, e);
  if (!rc && !*stopped) s->of.whole++;
  return rc;
}

/* --- the command -------------------------------------------------------- */

static void interrupted(void *self) {
  const task *s = self;
  char note[160];
  snprintf(note, sizeof note,
           "interrupted: %d of %d traces are compared; repeat the command to "
           "compare all",
           s->of.whole, traces(s));
  kv_note(note);
}

/* Prints what is complete when a method does not return
 * (sim/commands/signal.h). */
static void last_words(void *self) {
  task *s = self;
  kv_progress_wipe(&s->of.progress);
  kv_verdicts_close(&s->verdicts, NULL);
  interrupted(s);
}

static kv_rc run_all(task *s, bool *stopped, kv_err *e) {
  kv_rc rc = KV_OK;
  kv_verdicts_open((kv_verdict_format)s->options.format, "kvreplay check",
                   stdout, &s->verdicts);
  kv_stop_words(last_words, s);
  kv_progress_start(&s->of.progress, stderr, "check", KV_REPLAY_UNIT,
                    kv_job_units(&s->of) * s->options.backends,
                    s->options.cells.quiet);
  for (int i = 0; !rc && !*stopped && i < traces(s); i++)
    rc = check_trace(s, i, stopped, e);
  kv_stop_words(NULL, NULL);
  kv_progress_end(&s->of.progress);
  if (rc && s->verdicts.n == 0) {
    kv_verdicts_drop(&s->verdicts);
    return rc;
  }
  kv_err closing = {0};
  kv_rc closed = kv_verdicts_close(&s->verdicts, &closing);
  return rc || !closed ? rc : kv_fail(e, closed, "%s", closing.text);
}

/* --- the calls of a command --------------------------------------------- */

static void begin(void *self, int argc, char **argv) {
  kv_job_begin(&((task *)self)->of, argc, argv);
}

static kv_rc check(void *self, kv_err *e) {
  return kv_check_options_check(kv_method_at, &((task *)self)->options, e);
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  kv_rc rc = kv_job_start(&s->options.cells, true, &s->of, e);
  if (!rc) rc = open_cells(s, e);
  if (!rc) rc = run_all(s, stopped, e);
  if (kv_interrupted() && s->of.whole < traces(s)) *stopped = true;
  return rc;
}

static int conclude(void *self) {
  task *s = self;
  const int *count = s->verdicts.count;
  int code = s->of.differed || count[KV_DIFFERS] ? KV_DIFFERENT
             : s->lacked                         ? KV_RESOURCE
             : count[KV_GAVE_UP]                 ? KV_INPUT
                                                 : KV_OK;
  return kv_refusals_conclude(&s->of, code, !count[KV_EQUAL],
                              "no cell could run, for the reasons in verdicts");
}

static void clean(void *self) {
  task *s = self;
  kv_job_close(&s->of);
  kv_cells_options_free(&s->options.cells);
}

const kv_task kv_task_check = {sizeof(task), begin,    check, work,
                               interrupted,  conclude, clean};
