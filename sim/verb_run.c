/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay run`: opens every cell of every trace, then replays trace by
 * trace, stores and prints. What was printed or said to be stored is never
 * taken back by what comes later.
 */
#include "sim/verbs.h"

#include "sim/batch.h"
#include "sim/decide_files.h"
#include "sim/options_run.h"
#include "sim/progress.h"
#include "sim/signal.h"
#include "sim/watch.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

typedef struct session {
  kv_run_options options;
  const kv_kernels *kernels;
  kv_environment environment;
  kv_db *db;
  kv_batch *batch; /* [options.traces.n] */
  kv_row_writer *rows;
  kv_progress progress;
  int ran, failed, differed;
  int rows_out; /* given to rows */
  int whole;    /* traces of which every row is stored and printed */
} session;

static void tick(void *self, int64_t units) { kv_progress_add(self, units); }

static kv_replay_how how_of(session *s, bool portable) {
  int threads = s->options.jobs ? s->options.jobs : omp_get_num_procs();
  return (kv_replay_how){.backend = &kv_backend_ref,
                         .kernels = s->kernels,
                         .threads = portable ? 1 : threads,
                         .by_steps = s->options.walk == KV_WALK_STEPS,
                         .fidelity = true,
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

static kv_rc open_all(session *s, kv_err *e) {
  const kv_list *traces = &s->options.traces;
  s->batch = kv_zalloc((size_t)traces->n, sizeof *s->batch);
  if (!s->batch)
    return kv_no_memory(e, "traces", (size_t)traces->n * sizeof *s->batch);
  kv_rc rc = KV_OK;
  for (int i = 0; !rc && i < traces->n; i++)
    rc = kv_batch_open(&(kv_batch_ask){.path = traces->item[i],
                                       .specs = &s->options.specs,
                                       .budgets = &s->options.budgets,
                                       .prompt_len = s->options.prompt_len,
                                       .how = how_of(s, false),
                                       .db = s->db},
                       &s->batch[i], e);
  return rc;
}

/* --- one trace ---------------------------------------------------------- */

/* A confirmation that disagrees: both rows are named, all others go on. */
static void differ(session *s, const kv_err *why) {
  s->differed++;
  kv_progress_end(&s->progress);
  kv_say(why);
}

static kv_rc compare(session *s, const kv_cell *a, const kv_cell *b) {
  const kv_result *x = &a->result, *y = &b->result;
  for (int i = 0; i < x->n_layers; i++) {
    const kv_layer_result *p = &x->layer[i], *q = &y->layer[i];
    const char *what = memcmp(&p->journal, &q->journal, 32) ? "journal"
                       : memcmp(&p->state, &q->state, 32)   ? "state"
                       : memcmp(&p->output, &q->output, 32) ? "output"
                                                            : NULL;
    if (!what) continue;
    kv_err e = {0};
    kv_fail(&e, KV_DIFFERENT,
            "%s, %s: the %s of layer %d differs between %s with %d threads "
            "and %s with one",
            x->trace, x->spec, what, p->layer, x->isa, x->threads, y->isa);
    differ(s, &e);
    return KV_DIFFERENT;
  }
  return KV_OK;
}

static kv_rc store(session *s, const kv_cell *c, kv_err *e) {
  if (!s->db) return KV_OK;
  kv_rc rc = kv_db_put(s->db, &c->result, &s->environment, e);
  if (rc != KV_DIFFERENT) return rc;
  differ(s, e);
  return KV_OK;
}

/* One trace again with portable kernels on one thread: every digest must
 * agree. Database and messages take turns, traces do not wait. */
static kv_rc again(session *s, const kv_batch *b, bool *stopped, kv_err *e) {
  kv_batch second = {0};
  kv_replay_how how = how_of(s, true);
  kv_rc rc = kv_kernels_named("portable", &how.kernels, NULL, e);
#pragma omp critical(kv_second)
  if (!rc) rc = kv_batch_again(b, how.kernels, s->db, &second, e);
  if (!rc)
    rc = kv_replay(b->trace, second.each, second.cells, &how, stopped, e);
#pragma omp critical(kv_second)
  for (int i = 0; !rc && !*stopped && i < b->cells; i++) {
    if (!second.cell[i].runs) continue;
    if (!compare(s, &b->cell[i], &second.cell[i]))
      rc = store(s, &second.cell[i], e);
  }
  kv_batch_close(&second);
  return rc;
}

/* The second passes, each on one thread, several traces at once. */
static kv_rc twice(session *s, bool *stopped, kv_err *e) {
  kv_rc first = KV_OK;
  int threads = how_of(s, false).threads;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int i = 0; i < s->options.traces.n; i++) {
    kv_err why = {0};
    bool cut = false;
    kv_rc rc = again(s, &s->batch[i], &cut, &why);
#pragma omp critical(kv_second)
    {
      *stopped = *stopped || cut;
      if (rc && !first) first = kv_fail(e, rc, "%s", why.text);
    }
  }
  return first;
}

static kv_rc put_trace(session *s, const kv_batch *b, const char *path,
                       kv_err *e) {
  kv_db_trace t = {.name = b->trace->name,
                   .identity = b->identity,
                   .shape = &b->trace->shape,
                   .path = path};
  return s->db ? kv_db_put_trace(s->db, &t, e) : KV_OK;
}

static kv_rc replay(session *s, kv_batch *b, bool *stopped, kv_err *e) {
  kv_watch_paths paths = {s->options.selections, s->options.views,
                          s->options.stored, s->options.outputs};
  kv_watch_files *files = NULL;
  kv_replay_how how = how_of(s, false);
  kv_rc rc = KV_OK;
  if (kv_watch_wanted(&paths) && b->cell[0].runs)
    rc = kv_watch_open(&paths, &b->cell[0], &files, &how.watch, e);
  kv_decide_files decide = {0};
  if (!rc && s->options.decisions) {
    rc = kv_decide_files_open(s->options.decisions, b, &decide, e);
    how.watch = kv_decide_files_watch(&decide, how.watch);
  }
  if (!rc) rc = kv_replay(b->trace, b->each, b->cells, &how, stopped, e);
  if (!rc && !*stopped && files) rc = kv_watch_finish(files, e);
  if (!rc && !*stopped && s->options.decisions)
    rc = kv_decide_files_write(&decide, e);
  kv_decide_files_close(&decide);
  kv_watch_close(files);
  return rc;
}

static kv_rc run_trace(session *s, kv_batch *b, const char *path, bool *stopped,
                       kv_err *e) {
  kv_rc rc = put_trace(s, b, path, e);
  if (!rc && s->db && !s->options.selections && !s->options.views &&
      !s->options.stored && !s->options.outputs)
    rc = kv_batch_recall(b, s->db, e);
  if (!rc) rc = replay(s, b, stopped, e);
  for (int i = 0; !rc && !*stopped && i < b->cells; i++)
    if (b->cell[i].runs || !kv_result_ran(&b->cell[i].result))
      rc = store(s, &b->cell[i], e);
  for (int i = 0; !rc && !*stopped && i < b->cells; i++) {
    const kv_result *r = &b->cell[i].result;
    s->ran += kv_result_ran(r);
    s->failed += r->status == KV_CELL_FAILED;
    rc = kv_row_writer_add(s->rows, r, e);
    s->rows_out++;
  }
  if (!rc && !*stopped) s->whole++;
  return rc;
}

/* --- the command -------------------------------------------------------- */

static int64_t units(const session *s) {
  int64_t n = 0;
  for (int i = 0; i < s->options.traces.n; i++)
    n += kv_replay_units(s->batch[i].trace, 0);
  return s->options.twice ? 2 * n : n;
}

static void list_cells(const session *s) {
  for (int i = 0; i < s->options.traces.n; i++)
    for (int c = 0; c < s->batch[i].cells; c++) {
      const kv_result *r = &s->batch[i].cell[c].result;
      printf("%s %s%s%s\n", r->trace, r->spec,
             r->status == KV_CELL_REFUSED ? ": refused: " : "",
             r->status == KV_CELL_REFUSED ? r->reason : "");
    }
}

static kv_rc run_all(session *s, bool *stopped, kv_err *e) {
  kv_rc rc = kv_row_writer_open((kv_row_format)s->options.format, stdout,
                                kv_colour_wanted(stdout), &s->rows, e);
  if (rc) return rc;
  kv_progress_start(&s->progress, stderr, "replay", units(s), s->options.quiet);
  for (int i = 0; !rc && !*stopped && i < s->options.traces.n; i++)
    rc = run_trace(s, &s->batch[i], s->options.traces.item[i], stopped, e);
  if (!rc && !*stopped && s->options.twice) rc = twice(s, stopped, e);
  kv_progress_end(&s->progress);
  kv_err closing = {0};
  kv_rc closed = KV_OK;
  if (rc && s->rows_out == 0)
    kv_row_writer_drop(s->rows);
  else
    closed = kv_row_writer_close(s->rows, &closing);
  s->rows = NULL;
  if (rc || !closed) return rc;
  return kv_fail(e, closed, "%s", closing.text);
}

static int exit_code(const session *s) {
  kv_err e = {0};
  if (s->differed) return KV_DIFFERENT;
  if (s->failed) return KV_INPUT;
  if (s->ran || s->options.dry_run) return KV_OK;
  kv_fail(&e, KV_USAGE, "no cell could run: see the reasons in the rows");
  return kv_say(&e);
}

/* What an interrupt left, and how to go on. */
static int interrupted(const session *s) {
  char note[320];
  const char *kept = s->db ? "stored" : "printed";
  const char *next = s->db ? "repeat the command: what is stored is not run "
                             "again"
                           : "with --db FILE a repeated command goes on from "
                             "here";
  snprintf(note, sizeof note,
           "interrupted: the rows of %d of %d traces are %s, nothing of the "
           "others; %s",
           s->whole, s->options.traces.n, kept, next);
  kv_note(note);
  return KV_EXIT_INTERRUPTED;
}

static void close_session(session *s) {
  for (int i = 0; s->batch && i < s->options.traces.n; i++)
    kv_batch_close(&s->batch[i]);
  free(s->batch);
  kv_db_close(s->db);
  kv_run_options_free(&s->options);
}

int kv_verb_run(int argc, char **argv) {
  session s = {0};
  kv_err e = {0};
  bool stopped = false;
  kv_rc rc = kv_run_options_parse(kv_method_at, argc, argv, &s.options, &e);
  if (!rc && s.options.asked != KV_ASKED_WORK) {
    int code = kv_verb_answer(s.options.asked, &kv_command_run);
    kv_run_options_free(&s.options);
    return code;
  }
  if (!rc) rc = pick_kernels(&s, &e);
  if (!rc) kv_environment_look(s.kernels->name, argc, argv, &s.environment);
  if (!rc && s.options.db && !s.options.dry_run)
    rc = kv_db_open(s.options.db, &s.db, &e);
  if (!rc) rc = open_all(&s, &e);
  if (!rc && s.options.dry_run)
    list_cells(&s);
  else if (!rc)
    rc = run_all(&s, &stopped, &e);
  if (kv_interrupted() && s.whole < s.options.traces.n) stopped = true;
  int code = stopped ? interrupted(&s) : rc ? kv_say(&e) : exit_code(&s);
  close_session(&s);
  return code;
}
