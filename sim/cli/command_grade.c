/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay grade`: opens the cell and the files to grade, replays with the
 * grading wrapped around the method, prints, stores. With a database the cell
 * is first replayed without grading, for the row to compare with.
 */
#include "sim/cli/commands.h"

#include "ref/ground/number.h"
#include "ref/ground/text.h"
#include "sim/cli/job.h"
#include "sim/cli/options_cells.h"
#include "sim/cli/show/grade_report.h"
#include "sim/cli/signal.h"
#include <string.h>

/* Zeroed before parsing. */
typedef struct kv_grade_options {
  kv_cells_options cells; /* first: sim/cli/options_cells.h; one cell */
  const char *theirs;     /* path of their decisions; NULL: outputs alone */
  const char *outputs;    /* path of their outputs; NULL: not graded */
  const char *tie_text, *atol_text, *rtol_text; /* as typed, or NULL */
  double tie; /* >= 0, scores within this share of the cut (the least score
                 chosen) are a tie; 1e-3 if not typed */
  double atol,
      rtol; /* tolerances of outputs, absolute and relative; < 0: not typed, use
               those of their type (sim/run/grade/outputs.h) */
  int follow;   /* whose decision the reference continues with: 0 theirs, 1 ours
                 */
  int lse_base; /* their log-sum-exp: 0 natural, 1 to base 2 */
  bool all;     /* list every wrong decision and row, not only the first */
  int format;   /* a kv_grade_format */
} kv_grade_options;

#define AT(member) .offset = offsetof(kv_grade_options, member)

static const kv_option options[] = {
    KV_OPTIONS_CELL("What to grade"),
    {KV_SLOT_TEXT, "theirs", 0, "FILE", AT(theirs), .use = KV_USE_READ,
     .common = true,
     .help = "decisions of the kernel, written like those of `kvreplay run "
             "--decisions` or kvreplay.decisions. A kernel that decides "
             "nothing, such as attention over a format, is graded by "
             "--outputs alone"},
    {KV_SLOT_TEXT, "outputs", 'o', "FILE", AT(outputs), .use = KV_USE_READ,
     .common = true,
     .help = "also its outputs: layers.L.o as `kvreplay run --outputs` writes "
             "them, in F32, F16 or BF16, optionally with layers.L.lse"},
    {KV_SLOT_TEXT, "tie", 't', "SHARE", AT(tie_text), .group = "How strictly",
     .common = true,
     .help = "scores within this share of the cut may fall on either side of "
             "it (default 1e-3). grade prints the least share that would do; "
             "for scores in bf16 it is 8e-3 to 2e-2"},
    {KV_SLOT_TEXT, "atol", 0, "A", AT(atol_text),
     .help = "an element of the output matches within A + R x the largest "
             "|ours| of its row, an LSE within A + R x max(1, |ours|) (default "
             "1e-5)"},
    {KV_SLOT_TEXT, "rtol", 0, "R", AT(rtol_text),
     .help = "R of --atol (default by type: F32 1.3e-6, F16 1e-3, BF16 "
             "1.6e-2)"},
    {KV_SLOT_CHOICE, "lse-base", 0, "BASE", .choices = "e|2", AT(lse_base),
     .help = "base of the kernel's LSE: e (the default), natural like ours, or "
             "2, as FlashInfer returns it"},
    {KV_SLOT_CHOICE, "follow", 0, "WHOM", .choices = "theirs|ours", AT(follow),
     .help = "which decision the reference continues with: theirs (the "
             "default), so that one difference counts once, or ours"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = "table|json|junit",
     AT(format), .group = "What to print", .common = true,
     .help = "standard output as table (the default), json or junit"},
    {KV_SLOT_FLAG, "all", 'a', NULL, AT(all), .common = true,
     .help = "list every wrong decision and every wrong output row, not only "
             "the first"},
    KV_OPTION_DB("store the reference's row in an SQLite database, and the "
                 "first thing wrong in each layer as a difference from it"),
    KV_OPTION_QUIET,
    KV_OPTION_JOBS("one thread grades; these search for a budget in bytes and "
                   "replay the row of --db (default: one per processor)"),
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay grade chat.safetensors -m quest:page=16 -b 1024 --theirs "
     "mine.safetensors",
     "each page list against the reference"},
    {"kvreplay grade chat.safetensors -m h2o -b 20% --theirs mine.safetensors "
     "--outputs out.safetensors --tie 2e-2",
     "a kernel with scores in bf16, and its outputs"},
    {"kvreplay grade chat.safetensors -m snapkv -b 512 --theirs "
     "mine.safetensors -f junit",
     "one test case per layer, for a CI system"},
    {"kvreplay grade chat.safetensors -m nvfp4:v_scale=0.01 --outputs "
     "out.safetensors",
     "attention over a coded cache: a swapped nibble is wrong at once"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Replays the method and compares each decision with the kernel's: what a "
    "query head attends to at a step, and what a lane keeps. Equal: the same "
    "tokens, and the same order if the method or its positions depend on it. "
    "Tie: the tokens that differ, on both sides, have scores within --tie of "
    "the cut. The cut is the least score chosen. Wrong: everything else, and "
    "every token that is not in the trace, has not arrived, is gone, or is "
    "named twice. A difference in tokens that a method keeps whatever the "
    "scores say is never a tie.",
    "Below the counts grade prints the least --tie that makes all differences "
    "ties, or says that no --tie does because something else is wrong.",
    KV_NOTES_REST,
    "For a kernel that reads bf16, use a trace in bf16; otherwise its scores "
    "are of other numbers: `kvtrace convert chat.safetensors --dtype bf16 -o "
    "chat.bf16.safetensors`. If only the sum of a score is rounded to bf16, "
    "differences are ties at 8e-3. If products or logits are rounded before "
    "they are summed, up to about 2e-2.",
    "grade looks at the kinds of decision that the file contains. A step "
    "without a list is a decision for all live tokens. For views, the order "
    "within a list changes nothing, nor does that of physical pages.",
    "In the JSON \"NaN\", \"Infinity\" and \"-Infinity\" are strings. null "
    "means "
    "that there is no number, as in lse_max_abs if the outputs have no LSE.",
    "The exit code is 0 if nothing is wrong, 1 if something is, 2 if method, "
    "file and trace do not belong together, and 3 if a file is malformed.",
    NULL};

static kv_rc tolerance(const char *name, const char *text, double fallback,
                       double *out, kv_err *e) {
  char show[KV_SHOW];
  *out = fallback;
  if (!text || (kv_number_parse(text, out) && *out >= 0)) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "--%s must be a number from 0 on, such as 1e-3, not '%s'",
                 name, kv_show(text, show));
}

/* Fills o->cells, tie, atol and rtol from what was typed. KV_USAGE also if a
 * number is wrong or negative, or unless one method and at most one budget are
 * named. Otherwise fails as kv_cells_options_read. */
static kv_rc grade_options_check(kv_registry *registry, kv_grade_options *o,
                                 kv_err *e) {
  kv_rc rc = tolerance("tie", o->tie_text, 1e-3, &o->tie, e);
  if (!rc) rc = tolerance("atol", o->atol_text, -1, &o->atol, e);
  if (!rc) rc = tolerance("rtol", o->rtol_text, -1, &o->rtol, e);
  if (!rc && !o->theirs && !o->outputs)
    rc = kv_fail(e, KV_USAGE,
                 "grade needs what the kernel did; name --theirs, --outputs or "
                 "both");
  if (!rc) rc = kv_cells_options_read(registry, &o->cells, e);
  if (!rc && (o->cells.specs.n != 1 || o->cells.budgets.n > 1))
    rc = kv_fail(e, KV_USAGE,
                 "grade compares one method at one budget; give one to -m and "
                 "one to -b");
  return rc ? rc : kv_cells_options_apart(&kv_command_grade, &o->cells, e);
}

typedef struct task {
  kv_grade_options options;
  kv_job of;       /* kernels, database, the cell */
  kv_batch graded; /* the cell with the grading around its method */
  kv_decisions_file *theirs;
  kv_decisions_file none; /* instead of theirs, where only outputs are graded */
  kv_outputs *outputs;
  kv_grading *grading;
  kv_grade_report report;
} task;

static kv_replay_how how_of(task *s) {
  kv_replay_how how = kv_job_how(&s->of, &kv_backend_ref);
  how.fidelity = s->of.db != NULL;
  return how;
}

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
  kv_rc rc = KV_OK;
  s->none = (kv_decisions_file){.path = o->outputs, .name = o->outputs};
  if (o->theirs)
    rc = kv_decisions_open(o->theirs, t, prompt_len, &s->theirs, e);
  if (!rc && o->outputs)
    rc = kv_outputs_open(o->outputs, t, prompt_len, &how, &s->outputs, e);
  return rc;
}

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

static const kv_decisions_file *theirs(const task *s) {
  return s->theirs ? s->theirs : &s->none;
}

/* Stores a layer's first difference with the row. */
static kv_rc put_wrong(task *s, int layer, const char *text, kv_err *e) {
  return kv_db_put_theirs(s->of.db, &s->of.batch->cell[0].result,
                          &s->of.environment, theirs(s)->name, layer, text, e);
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
  kv_grade_how what = {.theirs = theirs(s),
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
  const kv_decisions_form *d = &theirs(s)->form;
  kv_grade_report *r = &s->report;
  *r = (kv_grade_report){.row = &s->graded.cell[0].result,
                         .theirs = theirs(s),
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

static void begin(void *self, int argc, char **argv) {
  kv_job_begin(&((task *)self)->of, argc, argv);
}

static kv_rc check(void *self, kv_err *e) {
  return grade_options_check(kv_method_at, &((task *)self)->options, e);
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
  kv_note("interrupted: nothing was graded; repeat the command");
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

static const kv_task task_grade = {sizeof(task), begin,    check, work,
                                   interrupted,  conclude, clean};

const kv_command kv_command_grade = {
    KV_COMMAND(grade, "grade the decisions and outputs of another kernel"),
    KV_TAKES("TRACE", 1, 1, kv_grade_options, cells.traces, KV_USE_READ)};
