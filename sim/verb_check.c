/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay check`: opens every cell of every trace, replays trace by trace
 * with the first backend and with each other, compares and stores. What was
 * printed or stored is never taken back by what comes later.
 */
#include "sim/verbs.h"

#include "sim/batch.h"
#include "sim/compare.h"
#include "sim/options_check.h"
#include "sim/progress.h"
#include "sim/signal.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

typedef struct session {
  kv_check_options options;
  const kv_kernels *kernels;
  kv_environment environment;
  kv_db *db;
  kv_batch *batch; /* [options.traces.n] */
  kv_verdicts verdicts;
  kv_progress progress;
  int conflicts; /* rows that the database contradicts */
  int whole;     /* traces of which every verdict is given */
} session;

static void tick(void *self, int64_t units) { kv_progress_add(self, units); }

/* Measures are for the database; a comparison needs none. */
static kv_replay_how how_of(session *s, int backend) {
  int jobs = s->options.jobs;
  return (kv_replay_how){.backend = s->options.backend[backend],
                         .kernels = s->kernels,
                         .threads = jobs ? jobs : omp_get_num_procs(),
                         .fidelity = s->db && backend == 0,
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
                                       .how = how_of(s, 0),
                                       .db = s->db},
                       &s->batch[i], e);
  return rc;
}

/* --- the database ------------------------------------------------------- */

/* quiet: the verdict says it better. */
static kv_rc put(session *s, const kv_result *r, bool quiet, kv_err *e) {
  kv_err why = {0};
  kv_rc rc = s->db ? kv_db_put(s->db, r, &s->environment, &why) : KV_OK;
  if (rc && rc != KV_DIFFERENT) return kv_fail(e, rc, "%s", why.text);
  if (rc && !quiet) {
    s->conflicts++;
    kv_progress_end(&s->progress);
    kv_say(&why);
  }
  return KV_OK;
}

static kv_rc put_first(session *s, const kv_batch *b, const char *path,
                       kv_err *e) {
  kv_db_trace t = {.name = b->trace->name,
                   .identity = b->identity,
                   .shape = &b->trace->shape,
                   .path = path};
  kv_rc rc = s->db ? kv_db_put_trace(s->db, &t, e) : KV_OK;
  for (int i = 0; !rc && i < b->cells; i++)
    rc = put(s, &b->cell[i].result, false, e);
  return rc;
}

/* An equal cell has the measures of the first, for they are made of what was
 * found equal; another one is stored as the conflict that it is. */
static kv_rc put_other(session *s, const kv_verdict *v, const kv_cell *cell,
                       kv_err *e) {
  kv_result r = *v->row;
  if (v->outcome == KV_DIFFERS) return put(s, &cell->result, true, e);
  if (v->outcome != KV_EQUAL) return KV_OK;
  r.backend = cell->result.backend;
  r.threads = cell->result.threads;
  r.seconds = cell->result.seconds;
  memcpy(r.isa, cell->result.isa, sizeof r.isa);
  return put(s, &r, false, e);
}

/* --- one trace ---------------------------------------------------------- */

/* Has this backend no twin of the method? */
static bool lacks(const kv_backend *b, const kv_cell *c) {
  return b != &kv_backend_ref && kv_method_ref_only(c->spec.method);
}

static kv_rc judge(session *s, const kv_cell *a, const kv_cell *b, int backend,
                   bool *stopped, kv_err *e) {
  const kv_backend *const *all = s->options.backend;
  kv_verdict v = {.row = &a->result,
                  .first = all[0]->name,
                  .backend = all[backend]->name,
                  .outcome = KV_EQUAL};
  kv_rc rc = KV_OK;
  if (a->result.status == KV_CELL_REFUSED)
    v.outcome = KV_NOT_RUN;
  else if (!kv_result_ran(&a->result))
    v.outcome = KV_GAVE_UP;
  else if (lacks(all[backend], b))
    v.outcome = KV_NOT_RUN, v.absent = true;
  else
    rc = kv_compare_cells(&(kv_compared){a, all[0]},
                          &(kv_compared){b, all[backend]}, kv_interrupted,
                          stopped, &v.difference, e);
  if (v.difference.found) v.outcome = KV_DIFFERS;
  if (rc || *stopped) return rc;
  rc = put_other(s, &v, b, e);
  return rc ? rc : kv_verdicts_add(&s->verdicts, &v, e);
}

static kv_rc other(session *s, const kv_batch *b, int backend, bool *stopped,
                   kv_err *e) {
  kv_batch second = {0};
  kv_replay_how how = how_of(s, backend);
  kv_rc rc = kv_batch_again(b, s->kernels, NULL, &second, e);
  for (int i = 0; !rc && i < second.cells; i++)
    if (lacks(how.backend, &second.cell[i])) second.cell[i].runs = false;
  if (!rc)
    rc = kv_replay(b->trace, second.each, second.cells, &how, stopped, e);
  for (int i = 0; !rc && !*stopped && i < b->cells; i++)
    rc = judge(s, &b->cell[i], &second.cell[i], backend, stopped, e);
  kv_batch_close(&second);
  return rc;
}

static kv_rc check_trace(session *s, kv_batch *b, const char *path,
                         bool *stopped, kv_err *e) {
  kv_replay_how how = how_of(s, 0);
  kv_rc rc = kv_replay(b->trace, b->each, b->cells, &how, stopped, e);
  if (!rc && !*stopped) rc = put_first(s, b, path, e);
  for (int i = 1; !rc && !*stopped && i < s->options.backends; i++)
    rc = other(s, b, i, stopped, e);
  if (!rc && !*stopped) s->whole++;
  return rc;
}

/* --- the command -------------------------------------------------------- */

static int64_t units(const session *s) {
  int64_t n = 0;
  for (int i = 0; i < s->options.traces.n; i++)
    n += kv_replay_units(s->batch[i].trace, 0);
  return n * s->options.backends;
}

static kv_rc run_all(session *s, bool *stopped, kv_err *e) {
  kv_rc rc = KV_OK;
  kv_verdicts_open((kv_verdict_format)s->options.format, stdout, &s->verdicts);
  kv_progress_start(&s->progress, stderr, "check", units(s), s->options.quiet);
  for (int i = 0; !rc && !*stopped && i < s->options.traces.n; i++)
    rc = check_trace(s, &s->batch[i], s->options.traces.item[i], stopped, e);
  kv_progress_end(&s->progress);
  if (rc && s->verdicts.n == 0) {
    kv_verdicts_drop(&s->verdicts);
    return rc;
  }
  kv_err closing = {0};
  kv_rc closed = kv_verdicts_close(&s->verdicts, &closing);
  return rc || !closed ? rc : kv_fail(e, closed, "%s", closing.text);
}

static int exit_code(const session *s) {
  kv_err e = {0};
  const int *count = s->verdicts.count;
  if (s->conflicts || count[KV_DIFFERS]) return KV_DIFFERENT;
  if (count[KV_GAVE_UP]) return KV_INPUT;
  if (count[KV_EQUAL]) return KV_OK;
  kv_fail(&e, KV_USAGE, "no cell could run: see the reasons in the verdicts");
  return kv_say(&e);
}

static int interrupted(const session *s) {
  char note[160];
  snprintf(note, sizeof note,
           "interrupted: %d of %d traces are compared; repeat the command to "
           "compare all",
           s->whole, s->options.traces.n);
  kv_note(note);
  return KV_EXIT_INTERRUPTED;
}

static void close_session(session *s) {
  for (int i = 0; s->batch && i < s->options.traces.n; i++)
    kv_batch_close(&s->batch[i]);
  free(s->batch);
  kv_db_close(s->db);
  kv_check_options_free(&s->options);
}

int kv_verb_check(int argc, char **argv) {
  session s = {0};
  kv_err e = {0};
  bool stopped = false;
  kv_rc rc = kv_check_options_parse(kv_method_at, argc, argv, &s.options, &e);
  if (!rc && s.options.asked != KV_ASKED_WORK) {
    int code = kv_verb_answer(s.options.asked, &kv_command_check);
    kv_check_options_free(&s.options);
    return code;
  }
  if (!rc) rc = pick_kernels(&s, &e);
  if (!rc) kv_environment_look(s.kernels->name, argc, argv, &s.environment);
  if (!rc && s.options.db) rc = kv_db_open(s.options.db, &s.db, &e);
  if (!rc) rc = open_all(&s, &e);
  if (!rc) rc = run_all(&s, &stopped, &e);
  if (kv_interrupted() && s.whole < s.options.traces.n) stopped = true;
  int code = stopped ? interrupted(&s) : rc ? kv_say(&e) : exit_code(&s);
  close_session(&s);
  return code;
}
