/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay grade`: opens the cell and their files, replays with the grading
 * wrapped around the method, prints, stores. With a database the cell is first
 * run as it is, for the row that theirs is compared with.
 */
#include "sim/commands/commands.h"

#include "sim/commands/job.h"
#include "sim/commands/options_grade.h"
#include "sim/commands/signal.h"

typedef struct task {
  kv_grade_options options;
  kv_job of;       /* kernels, database, the cell */
  kv_batch graded; /* the cell with the grading around its method */
  kv_decisions_file *theirs;
  kv_outputs *outputs;
  kv_grading *grading;
  kv_grade_report report;
} task;

static kv_replay_how how_of(task *s) {
  kv_replay_how how = kv_job_how(&s->of, &kv_backend_ref);
  how.fidelity = s->of.db != NULL;
  return how;
}

/* --- opening ------------------------------------------------------------ */

static kv_rc open_cell(task *s, kv_err *e) {
  kv_replay_how how = how_of(s);
  kv_rc rc = kv_job_open(&s->of, &how, e);
  if (rc) return rc;
  const kv_result *r = &s->of.batch->cell[0].result;
  return kv_result_ran(r) ? KV_OK : kv_fail(e, KV_USAGE, "%s", r->reason);
}

static kv_rc open_theirs(task *s, kv_err *e) {
  const kv_grade_options *o = &s->options;
  const kv_trace *t = s->of.batch->trace;
  int prompt_len = s->of.batch->cell[0].shape.prompt_len;
  kv_outputs_how how = {o->atol, o->rtol, o->lse_base == 1, o->all};
  kv_rc rc = kv_decisions_open(o->theirs, t, prompt_len, &s->theirs, e);
  if (!rc && o->outputs)
    rc = kv_outputs_open(o->outputs, t, prompt_len, &how, &s->outputs, e);
  return rc;
}

/* --- the row ------------------------------------------------------------ */

static kv_rc put_row(task *s, bool *stopped, kv_err *e) {
  kv_batch *b = s->of.batch;
  kv_replay_how how = how_of(s);
  kv_rc rc = kv_batch_recall(b, s->of.db, e);
  if (rc || !b->cell[0].runs) return rc;
  rc = kv_job_replay(b, &how, stopped, e);
  if (rc || *stopped) return rc;
  rc = kv_job_put_trace(&s->of, 0, e);
  return rc ? rc : kv_job_put(&s->of, &b->cell[0].result, false, e);
}

/* Stores the first difference of a layer beside the row. */
static kv_rc put_wrong(task *s, int layer, const char *text, kv_err *e) {
  return kv_db_put_theirs(s->of.db, &s->of.batch->cell[0].result,
                          &s->of.environment, s->theirs->name, layer, text, e);
}

static kv_rc put_layer(task *s, int i, kv_err *e) {
  const kv_grade_report *r = &s->report;
  const kv_graded_layer *l = &r->layer[i];
  char text[KV_VERDICT_TEXT];
  kv_rc rc = KV_OK;
  if (l->count[KV_GRADE_WRONG])
    rc = put_wrong(s, l->layer,
                   kv_judged_text(&l->first, r->tie, r->page, text), e);
  if (rc || !s->outputs) return rc;
  const kv_output_sums *o = kv_outputs_layer(s->outputs, i);
  if (!o->wrong) return KV_OK;
  return put_wrong(s, l->layer, kv_output_text(&o->first, text), e);
}

/* --- grading ------------------------------------------------------------ */

static kv_rc grade(task *s, bool *stopped, kv_err *e) {
  const kv_grade_options *o = &s->options;
  kv_grade_how what = {.theirs = s->theirs,
                       .outputs = s->outputs,
                       .follow_ours = o->follow == 1,
                       .all = o->all,
                       .tie = o->tie};
  kv_rc rc = kv_batch_again(s->of.batch, s->of.kernels, NULL, &s->graded, e);
  kv_cell *c = rc ? NULL : &s->graded.cell[0];
  if (!rc) rc = kv_grading_open(c, &what, &s->grading, e);
  if (rc) return rc;
  kv_replay_how how = how_of(s);
  how.watch = kv_grading_watch(s->grading);
  how.threads = 1;
  how.fidelity = false;
  c->runs = true;
  rc = kv_job_replay(&s->graded, &how, stopped, e);
  if (rc || *stopped) return rc;
  if (!kv_result_ran(&c->result))
    return kv_fail(e, KV_INPUT, "%s", c->result.reason);
  return s->outputs ? kv_outputs_damaged(s->outputs, e) : KV_OK;
}

static kv_rc report(task *s, kv_err *e) {
  const kv_decisions_form *d = &s->theirs->form;
  kv_grade_report *r = &s->report;
  *r = (kv_grade_report){.row = &s->graded.cell[0].result,
                         .theirs = s->theirs,
                         .tie = s->options.tie,
                         .follow_ours = s->options.follow == 1,
                         .all = s->options.all,
                         .page = d->views ? d->view_page : d->stored_page,
                         .layers = s->graded.trace->n_layers,
                         .outputs = s->outputs};
  kv_rc rc = kv_grading_layers(s->grading, &r->layer, e);
  if (!rc)
    rc = kv_grade_print(r, (kv_grade_format)s->options.format, stdout, e);
  if (!rc && s->of.db)
    rc = put_wrong(s, -1, NULL, e); /* forget the last grading */
  for (int i = 0; !rc && s->of.db && i < r->layers; i++)
    rc = put_layer(s, i, e);
  return rc;
}

static kv_rc grade_all(task *s, bool *stopped, kv_err *e) {
  int passes = s->of.db ? 2 : 1;
  kv_progress_start(&s->of.progress, stderr, "grade", KV_REPLAY_UNIT,
                    passes * kv_job_units(&s->of), s->options.cells.quiet);
  kv_rc rc = s->of.db ? put_row(s, stopped, e) : KV_OK;
  if (!rc && !*stopped) rc = grade(s, stopped, e);
  kv_progress_end(&s->of.progress);
  return rc || *stopped ? rc : report(s, e);
}

/* --- the calls of a command --------------------------------------------- */

static void begin(void *self, int argc, char **argv) {
  kv_job_begin(&((task *)self)->of, argc, argv);
}

static kv_rc check(void *self, kv_err *e) {
  return kv_grade_options_check(kv_method_at, &((task *)self)->options, e);
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  kv_rc rc = kv_job_start(&s->options.cells, true, &s->of, e);
  if (!rc) rc = open_cell(s, e);
  if (!rc) rc = open_theirs(s, e);
  if (!rc) rc = grade_all(s, stopped, e);
  if (rc && kv_interrupted()) *stopped = true;
  if (rc == KV_REFUSED) e->rc = KV_USAGE; /* the file does not fit the cell */
  return rc;
}

static void interrupted(void *self) {
  (void)self;
  kv_note("interrupted: nothing is graded; repeat the command");
}

static int conclude(void *self) {
  return kv_grade_failed(&((task *)self)->report) ? KV_DIFFERENT : KV_OK;
}

static void clean(void *self) {
  task *s = self;
  kv_batch_close(&s->graded);
  kv_grading_close(s->grading);
  kv_outputs_close(s->outputs);
  kv_decisions_close(s->theirs);
  kv_job_close(&s->of);
  kv_cells_options_free(&s->options.cells);
}

const kv_task kv_task_grade = {sizeof(task), begin,    check, work,
                               interrupted,  conclude, clean};
