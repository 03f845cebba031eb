/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay grade`: opens the cell, reads theirs, replays with the grading in
 * between, prints, stores. With a database the cell is first run as it is:
 * the row that theirs differs from.
 */
#include "sim/verbs.h"

#include "sim/batch.h"
#include "sim/options_grade.h"
#include "sim/progress.h"
#include "sim/signal.h"
#include <omp.h>
#include <stdlib.h>

typedef struct session {
  kv_grade_options options;
  const kv_kernels *kernels;
  kv_environment environment;
  kv_db *db;
  kv_batch batch, graded; /* one cell each */
  kv_decisions_file *theirs;
  kv_outputs *outputs;
  kv_grading *grading;
  kv_progress progress;
  kv_grade_report report;
} session;

static void tick(void *self, int64_t units) { kv_progress_add(self, units); }

static kv_replay_how how_of(session *s, const kv_watch *watch) {
  int jobs = s->options.cells.jobs;
  return (kv_replay_how){.backend = &kv_backend_ref,
                         .kernels = s->kernels,
                         .threads = watch  ? 1
                                    : jobs ? jobs
                                           : omp_get_num_procs(),
                         .fidelity = !watch && s->db,
                         .watch = watch,
                         .tick = tick,
                         .self = &s->progress,
                         .stop = kv_interrupted};
}

/* --- opening ------------------------------------------------------------ */

static kv_rc pick_kernels(session *s, kv_err *e) {
  char note[128] = "";
  const char *name = getenv("KVREPLAY_ISA");
  s->kernels = kv_kernels_best();
  if (!name || !*name) return KV_OK;
  kv_rc rc = kv_kernels_named(name, &s->kernels, note, e);
  if (!rc && note[0]) kv_note(note);
  return rc;
}

static kv_rc open_cell(session *s, kv_err *e) {
  const kv_grade_options *o = &s->options;
  kv_rc rc = kv_batch_open(&(kv_batch_ask){.path = o->cells.traces.item[0],
                                           .specs = &o->cells.specs,
                                           .budgets = &o->cells.budgets,
                                           .prompt_len = o->cells.prompt_len,
                                           .how = how_of(s, NULL),
                                           .db = s->db},
                           &s->batch, e);
  if (rc) return rc;
  const kv_result *r = &s->batch.cell[0].result;
  return kv_result_ran(r) ? KV_OK : kv_fail(e, KV_USAGE, "%s", r->reason);
}

static kv_rc open_theirs(session *s, kv_err *e) {
  const kv_grade_options *o = &s->options;
  const kv_trace *t = s->batch.trace;
  int prompt_len = s->batch.cell[0].shape.prompt_len;
  kv_rc rc = kv_decisions_read(o->theirs, t, prompt_len, &s->theirs, e);
  if (!rc && o->outputs)
    rc = kv_outputs_open(o->outputs, t, prompt_len, o->atol, o->rtol,
                         &s->outputs, e);
  return rc;
}

/* --- the row ------------------------------------------------------------ */

static kv_rc put_row(session *s, bool *stopped, kv_err *e) {
  kv_batch *b = &s->batch;
  kv_replay_how how = how_of(s, NULL);
  kv_db_trace t = {.name = b->trace->name,
                   .identity = b->identity,
                   .shape = &b->trace->shape,
                   .path = s->options.cells.traces.item[0]};
  kv_rc rc = kv_batch_recall(b, s->db, e);
  if (rc || !b->cell[0].runs) return rc;
  rc = kv_replay(b->trace, b->each, 1, &how, stopped, e);
  if (rc || *stopped) return rc;
  rc = kv_db_put_trace(s->db, &t, e);
  return rc ? rc : kv_db_put(s->db, &b->cell[0].result, &s->environment, e);
}

static kv_rc put_layer(session *s, int i, kv_err *e) {
  const kv_grade_report *r = &s->report;
  const kv_graded_layer *l = &r->layer[i];
  const kv_result *row = &s->batch.cell[0].result;
  char text[KV_VERDICT_TEXT];
  kv_rc rc = KV_OK;
  if (l->count[KV_GRADE_WRONG])
    rc =
        kv_db_put_theirs(s->db, row, &s->environment, s->theirs->name, l->layer,
                         kv_judged_text(&l->first, r->tie, r->page, text), e);
  if (rc || !s->outputs) return rc;
  const kv_output_sums *o = kv_outputs_layer(s->outputs, i);
  if (!o->wrong) return KV_OK;
  return kv_db_put_theirs(s->db, row, &s->environment, s->theirs->name,
                          l->layer, kv_output_text(&o->first, text), e);
}

/* --- grading ------------------------------------------------------------ */

static kv_rc grade(session *s, bool *stopped, kv_err *e) {
  const kv_grade_options *o = &s->options;
  kv_grade_how what = {.theirs = s->theirs,
                       .outputs = s->outputs,
                       .follow_ours = o->follow == 1,
                       .tie = o->tie};
  kv_rc rc = kv_batch_again(&s->batch, s->kernels, NULL, &s->graded, e);
  kv_cell *c = rc ? NULL : &s->graded.cell[0];
  if (!rc) rc = kv_grading_open(c, &what, &s->grading, e);
  if (rc) return rc;
  kv_replay_how how = how_of(s, kv_grading_watch(s->grading));
  c->runs = true;
  rc = kv_replay(s->graded.trace, s->graded.each, 1, &how, stopped, e);
  if (rc || *stopped) return rc;
  if (!kv_result_ran(&c->result))
    return kv_fail(e, KV_INPUT, "%s", c->result.reason);
  return s->outputs ? kv_outputs_damaged(s->outputs, e) : KV_OK;
}

static kv_rc report(session *s, kv_err *e) {
  const kv_decisions *d = &s->theirs->decisions;
  kv_grade_report *r = &s->report;
  *r = (kv_grade_report){.row = &s->graded.cell[0].result,
                         .theirs = s->theirs,
                         .tie = s->options.tie,
                         .follow_ours = s->options.follow == 1,
                         .page = d->views ? d->layer[0].view.page
                                          : d->layer[0].stored.page,
                         .layers = s->graded.trace->n_layers,
                         .outputs = s->outputs};
  kv_rc rc = kv_grading_layers(s->grading, &r->layer, e);
  if (!rc)
    rc = kv_grade_print(r, (kv_grade_format)s->options.format, stdout, e);
  for (int i = 0; !rc && s->db && i < r->layers; i++) rc = put_layer(s, i, e);
  return rc;
}

static kv_rc work(session *s, bool *stopped, kv_err *e) {
  int passes = s->db ? 2 : 1;
  kv_progress_start(&s->progress, stderr, "grade",
                    passes * kv_replay_units(s->batch.trace, 0),
                    s->options.cells.quiet);
  kv_rc rc = s->db ? put_row(s, stopped, e) : KV_OK;
  if (!rc && !*stopped) rc = grade(s, stopped, e);
  kv_progress_end(&s->progress);
  return rc || *stopped ? rc : report(s, e);
}

static void close_session(session *s) {
  kv_batch_close(&s->graded);
  kv_grading_close(s->grading);
  kv_outputs_close(s->outputs);
  kv_decisions_close(s->theirs);
  kv_batch_close(&s->batch);
  kv_db_close(s->db);
  kv_grade_options_free(&s->options);
}

static int exit_code(const session *s, kv_rc rc, bool stopped, kv_err *e) {
  if (stopped) {
    kv_note("interrupted: nothing is graded; repeat the command");
    return KV_EXIT_INTERRUPTED;
  }
  if (rc == KV_REFUSED) e->rc = KV_USAGE; /* they do not belong together */
  if (rc) return kv_say(e);
  return kv_grade_failed(&s->report) ? KV_DIFFERENT : KV_OK;
}

int kv_verb_grade(int argc, char **argv) {
  session s = {0};
  kv_err e = {0};
  bool stopped = false;
  kv_rc rc = kv_grade_options_parse(kv_method_at, argc, argv, &s.options, &e);
  if (!rc && s.options.asked != KV_ASKED_WORK) {
    int code = kv_verb_answer(s.options.asked, &kv_command_grade);
    kv_grade_options_free(&s.options);
    return code;
  }
  if (!rc) rc = pick_kernels(&s, &e);
  if (!rc) kv_environment_look(s.kernels->name, argc, argv, &s.environment);
  if (!rc && s.options.cells.db) rc = kv_db_open(s.options.cells.db, &s.db, &e);
  if (!rc) rc = open_cell(&s, &e);
  if (!rc) rc = open_theirs(&s, &e);
  if (!rc) rc = work(&s, &stopped, &e);
  int code = exit_code(&s, rc, stopped, &e);
  close_session(&s);
  return code;
}
