/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay check`: opens every cell of every trace, replays trace by trace
 * with the first backend and with each other, compares and stores. Later
 * failures take back nothing that was printed or stored. If a device lacks
 * memory for one of several traces, only that trace's cells fail.
 */
#include "sim/cli/commands.h"

#include "gpu/host/backends.h"
#include "ref/ground/text.h"
#include "sim/cli/job.h"
#include "sim/cli/options_cells.h"
#include "sim/cli/refusals.h"
#include "sim/cli/show/verdict.h"
#include "sim/cli/signal.h"
#include "sim/run/compare/compare.h"
#include <string.h>

enum { KV_MOST_BACKENDS = 8 };

/* Zeroed before parsing. */
typedef struct kv_check_options {
  kv_cells_options cells; /* first: sim/cli/options_cells.h */
  const char *
      backend_text; /* --backends, as typed; NULL: all available on this host */
  const kv_backend *backend[KV_MOST_BACKENDS]; /* [backends] all are compared
                                                  with the first */
  int backends;                                /* 2 to KV_MOST_BACKENDS */
  int format;                                  /* a kv_verdict_format */
  bool paged;  /* --pages: cuda and emu store coded rows in unified pages, where
                  the formats allow it (kv_plan.paged) */
  int indices; /* --indices: a kv_indices, how cuda and emu find rows */
} kv_check_options;

#define AT(member) .offset = offsetof(kv_check_options, member)

static const kv_option options[] = {
    KV_OPTIONS_CELLS("What to check"),
    {KV_SLOT_TEXT, "backends", 'B', "NAME,...", .choices = KV_BACKEND_CHOICES,
     AT(backend_text), .common = true,
     .help = "backends to compare, each with the first: ref, the reference on "
             "the CPU; emu, the CUDA kernels run on the CPU; cuda, the CUDA "
             "kernels on a GPU (default: all that work here). A backend named "
             "twice is compared with itself, which shows what chance or time "
             "decides"},
    {KV_SLOT_FLAG, "pages", 0, AT(paged),
     .help = "emu and cuda store coded rows in unified pages, as LeanKV does, "
             "where the formats allow it. Results are the same"},
    {KV_SLOT_CHOICE, "indices", 0, "HOW",
     .choices = "none|sparse|max|joined|shared", AT(indices),
     .help = "emu and cuda store rows by regular indices, as Hard-KV does, if "
             "the rows keep their order: sparse, with masks; max, each lane "
             "rewritten when entries leave; joined, rewritten to what any lane "
             "of the layer holds; shared, with one mask per layer. Results are "
             "the same"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = KV_VERDICT_FORMATS,
     AT(format), .group = "What to print", .common = true,
     .help = "verdicts on standard output as table (the default), json, jsonl "
             "or junit"},
    KV_OPTION_DB("store the rows of the reference in an SQLite database, and "
                 "every other backend as a confirmation or a conflict"),
    KV_OPTION_QUIET,
    KV_OPTION_THREADS,
    KV_OPTION_STRICT,
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay check chat.safetensors -m all -b 20%",
     "every method, on every backend that works here"},
    {"kvreplay check *.safetensors -m h2o,kivi -b 20% --backends ref,cuda",
     "the GPU against the reference"},
    {"kvreplay check chat.safetensors -m all -b 64 --db r.db -f junit",
     "store confirmations; print verdicts for a CI system"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Replays every cell (trace, method and budget) with the first backend and "
    "with each other one. Compares the digests of journal, state, output and "
    "selection scores, and the ledger's bytes at every step. If a cell "
    "differs, check replays it with both backends side by side and names the "
    "first difference: step, layer, lane or query head; then the verb, score, "
    "element or kind of bytes; and both values as hex. A cell that fails on "
    "one backend still runs on the others.",
    "The exit code is 0 if all cells are equal, 1 if one differs, and 2 if no "
    "cell could run. It is 3 if a cell failed on the first backend, if a "
    "method named other than by `all` was refused on every trace at every "
    "budget, or with --strict if any cell was refused. It is 4 if a backend "
    "cannot be used or has no memory for a trace. The last line on standard "
    "error says what was refused, and why.",
    NULL};

static kv_rc add_backend(size_t n, const char *text, kv_check_options *o,
                         kv_err *e) {
  char show[KV_SHOW];
  if (o->backends == KV_MOST_BACKENDS)
    return kv_fail(e, KV_USAGE, "--backends must name at most %d",
                   KV_MOST_BACKENDS);
  if (n == 0)
    return kv_fail(e, KV_USAGE, "--backends %s has an empty name",
                   kv_show(o->backend_text, show));
  return kv_cells_options_backend(n, text, &o->backend[o->backends++], e);
}

static kv_rc name_backends(kv_check_options *o, kv_err *e) {
  kv_rc rc = KV_OK;
  for (const char *at = o->backend_text; !rc && at;) {
    size_t n = strcspn(at, ",");
    rc = add_backend(n, at, o, e);
    at = at[n] ? at + n + 1 : NULL;
  }
  if (!rc && o->backends < 2)
    rc = kv_fail(e, KV_USAGE,
                 "--backends names only one; add another to compare it with, "
                 "as in --backends ref,emu");
  return rc;
}

static kv_rc find_backends(kv_check_options *o, kv_err *e) {
  if (o->backend_text) return name_backends(o, e);
  o->backends = kv_backends_default(o->backend, KV_MOST_BACKENDS);
  if (o->backends >= 2) return KV_OK;
  return kv_fail(e, KV_RESOURCE,
                 "only backend %s is available, so there is nothing to "
                 "compare; --backends ref,emu says what is missing",
                 kv_backend_ref.name);
}

/* A database needs measures, and only the reference computes them: it must be
 * the first backend. */
static kv_rc check_db(const kv_check_options *o, kv_err *e) {
  if (!o->cells.db || !strcmp(o->backend[0]->name, kv_backend_ref.name))
    return KV_OK;
  return kv_fail(
      e, KV_USAGE,
      "--db stores rows of the reference; name ref first in --backends");
}

/* Fills o->cells and o->backend from what was typed. KV_USAGE also if a backend
 * is unknown or the only one named, or --db is given but ref is not the first.
 * KV_RESOURCE also if a named backend cannot be used here or, with none named,
 * only ref can. Otherwise fails as kv_cells_options_read. */
static kv_rc check_options_check(kv_registry *registry, kv_check_options *o,
                                 kv_err *e) {
  kv_rc rc = kv_cells_options_read(registry, &o->cells, e);
  if (!rc) rc = find_backends(o, e);
  if (!rc) rc = check_db(o, e);
  return rc ? rc : kv_cells_options_apart(&kv_command_check, &o->cells, e);
}

typedef struct task {
  kv_check_options options;
  kv_job of; /* kernels, database, cells */
  kv_verdicts verdicts;
  bool lacked; /* a device lacked memory for a trace */
} task;

static int traces(const task *s) { return s->options.cells.traces.n; }

/* Measures are needed only for the database. */
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

/* Stores the row of another backend. An equal cell gets the first backend's
 * measures, since they follow from what was found equal; so does one that
 * differs only in its ledger. Any other is stored as a conflict, without a
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

/* Replays a batch. *lacks: the device lacked memory for it but has not failed,
 * and there are other traces; then only this batch's cells fail. */
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

/* Replays a batch on another backend, also cells that failed on the first. */
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
           "interrupted: %d of %d traces compared; repeat the command to "
           "compare all",
           s->of.whole, traces(s));
  kv_note(note);
}

/* Prints what is complete if a method does not return (sim/cli/signal.h). */
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

static void begin(void *self, int argc, char **argv) {
  kv_job_begin(&((task *)self)->of, argc, argv);
}

static kv_rc check(void *self, kv_err *e) {
  return check_options_check(kv_method_at, &((task *)self)->options, e);
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
                              "no cell could run; the verdicts say why");
}

static void clean(void *self) {
  task *s = self;
  kv_job_close(&s->of);
  kv_cells_options_free(&s->options.cells);
}

static const kv_task task_check = {sizeof(task), begin,    check, work,
                                   interrupted,  conclude, clean};

const kv_command kv_command_check = {
    KV_COMMAND(check, "compare backends bit by bit"),
    KV_TAKES("TRACE...", 1, INT_MAX, kv_cells_options, traces, KV_USE_READ)};
