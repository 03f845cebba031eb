/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run`: opens every cell of every trace, then replays trace by trace,
 * stores and prints. What was printed or reported as stored is never taken back
 * later.
 */
#include "sim/commands/commands.h"

#include "sim/commands/beside_cells.h"
#include "sim/commands/decide_files.h"
#include "sim/commands/job.h"
#include "sim/commands/options_run.h"
#include "sim/commands/refusals.h"
#include "sim/commands/signal.h"
#include "sim/commands/together_cells.h"
#include "sim/look/survive.h"
#include "sim/look/watch.h"
#include "traces/text/text.h"
#include <stdlib.h>
#include <string.h>

typedef struct task {
  kv_run_options options;
  kv_job of; /* kernels, database, cells */
  kv_row_writer *rows;
  int ran, failed;
  bool lacked;  /* memory of a device, for some trace */
  bool served;  /* some request of --together */
  int rows_out; /* rows already written */
} task;

static int traces(const task *s) { return s->options.cells.traces.n; }

static kv_replay_how how_of(task *s) {
  kv_replay_how how = kv_job_how(&s->of, s->options.backend);
  how.by_steps = s->options.walk == KV_WALK_STEPS;
  how.fidelity = true;
  how.scores = s->of.db || s->options.twice;
  return how;
}

static kv_rc open_cells(task *s, kv_err *e) {
  kv_replay_how how = how_of(s);
  kv_rc rc = KV_OK;
  s->of.identify = !s->options.people;
  s->of.goes_on = true;
  s->of.layouts = &s->options.layouts;
  s->of.found_path = s->options.found_path;
  if (s->options.shard.count)
    rc = kv_job_cut(&s->of, &how, s->options.shard, e);
  if (!rc) rc = kv_job_open(&s->of, &how, e);
  if (!rc) rc = kv_beside_cells_check(&s->of, &s->options.beside, e);
  if (rc || !s->options.together) return rc;
  kv_together together = kv_run_together(&s->options, how_of(s).threads);
  return kv_together_check(&s->of, &together, e);
}

/* --- one trace ---------------------------------------------------------- */

static kv_rc compare(task *s, const kv_cell *a, const kv_cell *b) {
  const kv_result *x = &a->result, *y = &b->result;
  for (int i = 0; i < x->n_layers; i++) {
    const kv_layer_result *p = &x->layer[i], *q = &y->layer[i];
    const char *what = memcmp(&p->journal, &q->journal, 32) ? "journal"
                       : memcmp(&p->state, &q->state, 32)   ? "state"
                       : memcmp(&p->output, &q->output, 32) ? "output"
                       : memcmp(&p->scores, &q->scores, 32) ? "score digest"
                                                            : NULL;
    if (!what) continue;
    kv_err e = {0};
    kv_fail(&e, KV_DIFFERENT,
            "%s, %s: the %s of layer %d differs between %s with %d threads "
            "and %s with one",
            kv_result_name(x), x->spec, what, p->layer, x->isa, x->threads,
            y->isa);
    kv_job_differ(&s->of, &e);
    return KV_DIFFERENT;
  }
  return KV_OK;
}

/* Replays one trace again with the reference, portable kernels and one thread:
 * every digest must agree. Threads take turns for database and messages. */
static kv_rc again(task *s, const kv_batch *b, bool *stopped, kv_err *e) {
  kv_batch second = {0};
  kv_keeper keeper = {0};
  kv_survive *tokens = NULL;
  kv_replay_how how = how_of(s);
  how.backend = &kv_backend_ref;
  how.threads = 1;
  kv_rc rc = kv_kernels_named("portable", &how.kernels, NULL, e);
  if (!b->trace) return rc;
#pragma omp critical(kv_database)
  if (!rc) rc = kv_batch_again(b, how.kernels, s->of.db, &second, e);
  if (!rc && s->options.tokens) rc = kv_survive_open(&second, NULL, &tokens, e);
  how.watch = kv_survive_watch(tokens, NULL);
  if (!s->options.tokens) kv_job_keep(&s->of, &how, &keeper);
  if (!rc)
    rc = kv_replay(b->trace, second.each, second.cells, &how, stopped, e);
  if (!rc && tokens) kv_survive_take(tokens);
  kv_survive_close(tokens);
  kv_keeper_close(&keeper);
#pragma omp critical(kv_database)
  for (int i = 0; !rc && !*stopped && i < b->cells; i++) {
    if (!second.cell[i].runs) continue;
    if (!compare(s, &b->cell[i], &second.cell[i]))
      rc = kv_job_put(&s->of, &second.cell[i].result, false, e);
  }
  kv_batch_close(&second);
  return rc;
}

/* Makes the second replays, each with one thread, several traces at once. */
static kv_rc twice(task *s, bool *stopped, kv_err *e) {
  kv_rc first = KV_OK;
  int threads = how_of(s).threads;
  kv_stop_cut(true);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int i = 0; i < traces(s); i++) {
    kv_err why = {0};
    bool cut = false;
    kv_rc rc = again(s, &s->of.batch[i], &cut, &why);
#pragma omp critical(kv_database)
    {
      *stopped = *stopped || cut;
      if (rc && !first) first = kv_fail(e, rc, "%s", why.text);
    }
  }
  kv_stop_cut(false);
  return first;
}

/* True if rows and layers of a trace that are in the database are not replayed.
 * Not with files, tokens, a pool, ranks or pieces, which must see the whole
 * replay. */
static bool recalls(const task *s) {
  return s->of.db && !kv_run_options_files(&s->options) &&
         !s->options.together && !kv_beside_asks(&s->options.beside);
}

/* True if layers of a trace are kept before its rows are complete. */
static bool keeps(const task *s) {
  return recalls(s) && !s->options.tokens && s->options.walk == KV_WALK_LAYERS;
}

/* Replays a batch and writes its files: those of one cell, decisions of all. */
static kv_rc replay(task *s, kv_batch *b, bool *stopped, kv_err *e) {
  kv_watch_paths paths = {s->options.selections, s->options.views,
                          s->options.stored, s->options.outputs};
  const char *dir = s->options.decisions;
  kv_watch_files *files = NULL;
  kv_decide_files decide = {0};
  kv_survive *tokens = NULL;
  kv_beside_cells others = {0};
  kv_keeper keeper = {0};
  kv_replay_how how = how_of(s);
  kv_rc rc = KV_OK;
  if (kv_watch_wanted(&paths) && b->cell[0].runs)
    rc = kv_watch_open(&paths, &b->cell[0], &files, &how.watch, e);
  if (!rc && dir)
    rc = kv_decide_files_open(dir, &s->options.cells.traces,
                              (int)(b - s->of.batch), b, &decide, e);
  if (!rc) how.watch = kv_decide_files_watch(&decide, how.watch);
  if (!rc && s->options.tokens) rc = kv_survive_open(b, NULL, &tokens, e);
  how.watch = kv_survive_watch(tokens, how.watch);
  if (!rc)
    rc = kv_beside_cells_open(b, &s->options.beside, how.watch, &others, e);
  if (!rc) how.watch = others.watch;
  if (!rc) kv_job_say_one_thread(&s->of, &how);
  if (keeps(s)) kv_job_keep(&s->of, &how, &keeper);
  if (!rc) rc = kv_job_replay(b, &how, stopped, e);
  if (!rc && !*stopped && files) rc = kv_watch_finish(files, e);
  if (!rc && !*stopped && dir) rc = kv_decide_files_write(&decide, e);
  if (!rc && !*stopped && tokens) kv_survive_take(tokens);
  if (!rc && !*stopped) rc = kv_beside_cells_ask(&others, &how, stopped, e);
  kv_beside_cells_close(&others);
  kv_survive_close(tokens);
  kv_keeper_close(&keeper);
  kv_decide_files_close(&decide);
  kv_watch_close(files);
  return rc;
}

/* True if other traces may still be replayed: this one is bad, or the device
 * had no memory for it and has not failed. */
static bool only_this(const task *s, kv_rc rc) {
  bool (*lacked)(void) = s->options.backend->lacked;
  if (traces(s) < 2) return false;
  return rc == KV_INPUT || (rc == KV_RESOURCE && lacked && lacked());
}

/* Replays a batch. If its trace cannot be replayed and others can, only its
 * cells fail. */
static kv_rc replay_or_fail(task *s, kv_batch *b, bool *stopped, bool *bad,
                            kv_err *e) {
  kv_err why = {0};
  kv_rc rc = replay(s, b, stopped, &why);
  *bad = only_this(s, rc);
  s->lacked = s->lacked || (*bad && rc == KV_RESOURCE);
  if (rc && !*bad) return kv_fail(e, rc, "%s", why.text);
  if (!*bad) return KV_OK;
  kv_batch_fail(b, &why);
  kv_job_tell(&s->of, why.text);
  return KV_OK;
}

/* Rows of a trace that could not be replayed are no results, and not stored. */
static kv_rc compute(task *s, int at, bool *stopped, bool *bad, kv_err *e) {
  kv_batch *b = &s->of.batch[at];
  kv_rc rc = kv_job_put_trace(&s->of, at, e);
  b->tokens = s->options.tokens;
  if (!rc && recalls(s)) rc = kv_batch_recall(b, s->of.db, e);
  if (!rc) rc = replay_or_fail(s, b, stopped, bad, e);
  for (int i = 0; !rc && !*stopped && !*bad && i < b->cells; i++)
    if (b->cell[i].runs || !kv_result_ran(&b->cell[i].result))
      rc = kv_job_put(&s->of, &b->cell[i].result, false, e);
  return rc;
}

static void tell_failed(task *s, const kv_result *r) {
  char text[1024];
  snprintf(text, sizeof text, "%.255s, %.200s failed: %s", kv_result_name(r),
           r->spec, r->reason);
  kv_job_tell(&s->of, text);
}

static kv_rc print_trace(task *s, int at, bool bad, const bool *stopped,
                         kv_err *e) {
  const kv_batch *b = &s->of.batch[at];
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && !*stopped && i < b->cells; i++) {
    kv_result *r = &b->cell[i].result;
    bool failed = r->status == KV_CELL_FAILED;
    s->ran += kv_result_ran(r);
    s->failed += failed;
    if (failed && !bad) tell_failed(s, r);
    rc = kv_beside_cells_name(&s->options.beside, r, e);
    if (!rc) rc = kv_row_writer_add(s->rows, r, e);
    s->rows_out++;
  }
  if (!rc && !*stopped) s->of.whole++;
  return rc;
}

static kv_rc run_trace(task *s, int at, bool *stopped, kv_err *e) {
  bool bad = !s->of.batch[at].trace; /* reported already */
  kv_rc rc = bad ? KV_OK : compute(s, at, stopped, &bad, e);
  return rc ? rc : print_trace(s, at, bad, stopped, e);
}

/* No row of requests that share a pool is whole before all were replayed. */
static kv_rc run_together(task *s, bool *stopped, kv_err *e) {
  const kv_together how = kv_run_together(&s->options, how_of(s).threads);
  bool *bad = kv_zalloc((size_t)traces(s), sizeof *bad);
  kv_rc rc = bad ? KV_OK : kv_no_memory(e, "traces", (size_t)traces(s));
  for (int i = 0; !rc && !*stopped && i < traces(s); i++) {
    bad[i] = !s->of.batch[i].trace;
    if (!bad[i]) rc = compute(s, i, stopped, &bad[i], e);
  }
  if (!rc && !*stopped) rc = kv_together_cells(&s->of, &how, &s->served, e);
  for (int i = 0; !rc && !*stopped && i < traces(s); i++)
    rc = print_trace(s, i, bad[i], stopped, e);
  free(bad);
  return rc;
}

static kv_rc run_traces(task *s, bool *stopped, kv_err *e) {
  kv_rc rc = KV_OK;
  if (s->options.together) return run_together(s, stopped, e);
  for (int i = 0; !rc && !*stopped && i < traces(s); i++)
    rc = run_trace(s, i, stopped, e);
  return rc;
}

/* --- the command -------------------------------------------------------- */

static void list_cells(task *s) { /* --dry-run */
  for (int i = 0; i < traces(s); i++)
    for (int c = 0; c < s->of.batch[i].cells; c++) {
      const kv_result *r = &s->of.batch[i].cell[c].result;
      kv_job_print_cost(&s->of, i, c);
      kv_put_plain(stdout, kv_result_name(r));
      printf(" %s", r->spec);
      if (!kv_result_ran(r))
        printf(": %s: %s", kv_status_names[r->status], r->reason);
      putchar('\n');
      s->failed += r->status == KV_CELL_FAILED;
      s->ran += kv_result_ran(r);
    }
  kv_job_print_shard(&s->of);
}

/* Says what an interrupt left, and how to continue. */
static void interrupted(void *self) {
  const task *s = self;
  char note[320];
  const char *kept = s->of.db ? "stored" : "printed";
  const char *next = s->of.db
                         ? "repeat the command: what is stored is not run "
                           "again"
                         : "with --db FILE a repeated command goes on from "
                           "here";
  snprintf(note, sizeof note,
           "interrupted: the rows of %d of %d traces are %s, %s of the others; "
           "%s",
           s->of.whole, traces(s), kept,
           keeps(s) ? "and what layers were finished" : "nothing", next);
  if (s->options.together)
    snprintf(note, sizeof note,
             "interrupted: requests that share a pool are replayed in one go; "
             "repeat the command");
  kv_note(note);
}

/* Prints complete rows from another thread when a method does not return
 * (sim/commands/signal.h). */
static void last_words(void *self) {
  task *s = self;
  kv_progress_wipe(&s->of.progress);
  kv_row_writer_close(s->rows, NULL);
  interrupted(s);
}

static kv_rc run_all(task *s, bool *stopped, kv_err *e) {
  kv_rc rc = kv_row_writer_open((kv_row_format)s->options.format, stdout,
                                kv_colour_wanted(stdout), &s->rows, e);
  if (rc) return rc;
  kv_job_say_shard(&s->of);
  kv_stop_words(last_words, s);
  kv_progress_start(&s->of.progress, stderr, "replay", KV_REPLAY_UNIT,
                    kv_job_units(&s->of) * (s->options.twice ? 2 : 1),
                    s->options.cells.quiet);
  rc = run_traces(s, stopped, e);
  if (!rc && !*stopped && s->options.twice) rc = twice(s, stopped, e);
  kv_stop_words(NULL, NULL);
  kv_progress_end(&s->of.progress);
  kv_err closing = {0};
  kv_rc closed = KV_OK;
  if (rc && s->rows_out == 0)
    kv_row_writer_drop(s->rows);
  else
    closed = kv_row_writer_close(s->rows, &closing);
  s->rows = NULL;
  if (!rc && !closed && !*stopped && s->options.together && s->options.people)
    rc = kv_together_print(&s->of, stdout, e);
  if (!rc && !closed && !*stopped && s->options.people)
    rc = kv_beside_cells_print(&s->of, &s->options.beside, stdout, e);
  if (rc || !closed) return rc;
  return kv_fail(e, closed, "%s", closing.text);
}

/* --- the calls of a command --------------------------------------------- */

static void begin(void *self, int argc, char **argv) {
  kv_job_begin(&((task *)self)->of, argc, argv);
}

static kv_rc check(void *self, kv_err *e) {
  return kv_run_options_check(kv_method_at, &((task *)self)->options, e);
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  bool dry = s->options.dry_run;
  kv_rc rc = kv_together_deal(&s->options.arrive, &s->options.cells, e);
  if (!rc) rc = kv_job_start(&s->options.cells, !dry, &s->of, e);
  if (!rc) rc = open_cells(s, e);
  if (!rc && dry)
    list_cells(s);
  else if (!rc)
    rc = run_all(s, stopped, e);
  if (kv_interrupted() && s->of.whole < traces(s)) *stopped = true;
  return rc;
}

static int worse(const task *s) {
  if (s->of.differed) return KV_DIFFERENT;
  if (s->lacked || s->failed) return s->lacked ? KV_RESOURCE : KV_INPUT;
  if (!s->ran || !s->options.together || s->served || s->options.dry_run)
    return KV_OK;
  kv_note("no request found room in its pool: give --pool more");
  return KV_USAGE;
}

static int conclude(void *self) {
  task *s = self;
  bool nothing = !s->ran && !kv_job_shared(&s->of);
  if (s->options.people) kv_refusals_unequal(&s->of);
  kv_refusals_needless(&s->of);
  return kv_refusals_conclude(&s->of, worse(s), nothing, "no cell could run");
}

static void clean(void *self) {
  task *s = self;
  kv_job_close(&s->of);
  kv_run_options_free(&s->options);
}

const kv_task kv_task_run = {sizeof(task), begin,    check, work,
                             interrupted,  conclude, clean};
