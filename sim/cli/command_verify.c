/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay verify`: runs the rows of a database again, trace by trace, stores
 * confirmations if the file can be written, and reports for every row whether
 * it is the same, differs, or could not be run and why.
 */
#include "sim/cli/commands.h"

#include "sim/cli/job.h"
#include "sim/cli/show/verdict.h"
#include "sim/cli/signal.h"
#include "sim/cli/verify.h"
#include "sim/replay/engine/replay.h"
#include "sim/run/sweep/batch.h"
#include "sim/run/sweep/found.h"
#include "traces/option/option.h"
#include "traces/option/program.h"
#include "traces/text/progress.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct kv_verify_options {
  kv_list db;     /* one path */
  kv_list traces; /* -t: folders to look for traces in, after the paths at which
                     the database saw them; may be empty */
  int jobs;       /* threads, 1 to 4096; 0: one per processor */
  int format;     /* a kv_verdict_format */
  bool quiet;     /* no progress bar */
} kv_verify_options;

typedef struct kv_verify_found {   /* rows */
  int same, differed, older, lost; /* lost: without their trace */
} kv_verify_found;

#define AT(member) .offset = offsetof(kv_verify_options, member)

static const kv_option options[] = {
    {KV_SLOT_LIST, "traces", 't', "DIR", AT(traces), .group = "How to run",
     .help = "also look for traces in this folder; may be repeated"},
    {KV_SLOT_COUNT, "jobs", 'j', "N", .min = 1, .max = 4096, AT(jobs),
     .help = "threads (default: one per processor), which never change a "
             "number"},
    {KV_SLOT_CHOICE, "format", 'f', "FORMAT", .choices = KV_VERDICT_FORMATS,
     AT(format), .group = "What to print",
     .help = "verdicts on standard output as table (the default), json, jsonl "
             "or junit"},
    {KV_SLOT_FLAG, "quiet", 'q', AT(quiet), .help = "no progress bar"},
    {.slot = KV_SLOT_END}};

static const kv_example examples[] = {
    {"kvreplay verify results.db", "run every row again and compare"},
    {"KVREPLAY_ISA=portable kvreplay verify results.db -j 1",
     "the same with other kernels: an independent confirmation"},
    {"kvreplay verify traces/budgets.csv",
     "search again for the budgets that `kvreplay run --found` wrote"},
    {"kvreplay verify results.db -f junit >verify.xml",
     "one test case per row, for a CI system"},
    {NULL, NULL}};

static const char *const notes[] = {
    "Runs the rows of a database again. Every digest must match; the first "
    "that does not is printed with both values. If a row has memory layouts, "
    "caches on the device or fates of tokens, they are computed again too, and "
    "the first number that differs is printed. Rows of other code are counted "
    "but not run: another revision, plugin, or file that a method reads.",
    "The exit code is 1 if a row differs; otherwise 3 if a trace, a plugin "
    "(KVREPLAY_PLUGINS) or a file that a method reads is not found, or if "
    "there was nothing to verify; otherwise 0.",
    "DB may also be a table of budgets in bytes, written by `kvreplay run "
    "--found`. verify repeats each search, and a value that the search does "
    "not find is an error. Rows of an older revision are counted but not "
    "searched, because no run uses them.",
    NULL};

/* --- a table of found budgets -------------------------------------------- */

/* Finds the trace of a row: relative to the table's folder, or in one of
 * `folders`. False: not found. */
static bool find_trace(const char *table, const kv_list *folders,
                       const kv_found_row *row, size_t size, char *path) {
  const char *slash = strrchr(table, '/'), *stem = strrchr(row->trace, '/');
  int folder = slash && row->trace[0] != '/' ? (int)(slash - table) + 1 : 0;
  snprintf(path, size, "%.*s%s.safetensors", folder, table, row->trace);
  for (int i = 0; access(path, R_OK) && i < folders->n; i++)
    snprintf(path, size, "%s/%s.safetensors", folders->item[i],
             stem ? stem + 1 : row->trace);
  return !access(path, R_OK);
}

/* All specifications and all budgets of the n rows, each once. */
static kv_rc ask_all(const kv_found_row *row, int n, kv_specs *specs,
                     kv_budgets *budgets, kv_err *e) {
  kv_rc rc = KV_OK;
  for (int i = 0; i < n && !rc; i++) {
    bool spec = false, target = false;
    for (int j = 0; j < i; j++) {
      spec = spec || !strcmp(row[j].spec, row[i].spec);
      target = target || !strcmp(row[j].target, row[i].target);
    }
    if (!spec) rc = kv_specs_add(kv_method_at, row[i].spec, specs, e);
    if (!rc && !target) rc = kv_budgets_add(row[i].target, budgets, e);
  }
  return rc == KV_USAGE
             ? kv_fail(e, KV_INPUT, "the table of found budgets: %s", e->text)
             : rc;
}

static bool older(const kv_found_row *row) {
  kv_spec spec = {0};
  bool is = false;
  if (!kv_spec_parse(kv_method_at, row->spec, &spec, NULL))
    is = spec.method->revision != row->revision;
  kv_spec_free(&spec);
  return is;
}

static void say(const char *table, const kv_found_row *row,
                const kv_found_row *now) {
  char found[120] =
      "no search asks for it: of another trace, file or parameter";
  kv_err e = {0};
  if (now && now->bytes < 0)
    snprintf(found, sizeof found, "a search finds %d", (int)now->value);
  else if (now)
    snprintf(found, sizeof found,
             "a search finds none, from %d on (%lld bytes)", (int)now->value,
             (long long)now->bytes);
  kv_fail(&e, KV_DIFFERENT, "%.200s: %.120s, %.200s at %.60s: %d%s, but %s",
          table, row->trace, row->spec, row->target, (int)row->value,
          row->bytes < 0 ? "" : " as the smallest, which does not fit", found);
  kv_say(&e);
}

static void compare(const char *table, const kv_found_row *row, int n,
                    const kv_found *now, kv_verify_found *out) {
  for (int i = 0; i < n; i++) {
    const kv_found_row *x = &row[i], *y = kv_found_of(now, x->key);
    bool same = y && y->value == x->value && y->bytes == x->bytes &&
                y->dense == x->dense;
    bool old = !y && older(x);
    out->same += same;
    out->older += old;
    if (same || old) continue;
    out->differed++;
    say(table, x, y);
  }
}

static kv_rc search(const char *table, const char *path,
                    const kv_found_row *row, int n, const kv_replay_how *how,
                    kv_verify_found *out, kv_err *e) {
  kv_specs specs = {0};
  kv_budgets budgets = {0};
  kv_found now = {0};
  kv_batch batch = {0};
  kv_rc rc = ask_all(row, n, &specs, &budgets, e);
  if (!rc)
    rc = kv_batch_open(&(kv_batch_ask){.path = path,
                                       .specs = &specs,
                                       .budgets = &budgets,
                                       .how = *how,
                                       .record = &now},
                       &batch, e);
  if (!rc) compare(table, row, n, &now, out);
  kv_batch_close(&batch);
  kv_found_free(&now);
  kv_specs_free(&specs);
  kv_budgets_free(&budgets);
  return rc;
}

static void say_lost(const char *table, const kv_found_row *row, int n,
                     kv_verify_found *out) {
  kv_err e = {0};
  kv_fail(&e, KV_INPUT,
          "%.200s: %d row%s not verified, because there is no trace "
          "%.200s.safetensors beside it; name its folder with --traces",
          table, n, n == 1 ? " is" : "s are", row->trace);
  kv_say(&e);
  out->lost += n;
}

/* `kvreplay verify FILE` for a table of found budgets (sim/run/sweep/found.h).
 * Reads the table and repeats every search, trace by trace; each must find what
 * the table says. Reports each row that differs, and each missing trace, on
 * standard error. A row of an older revision of its method, which no search
 * looks up now, is only counted. KV_INPUT: the table or a trace is bad;
 * KV_RESOURCE. */
static kv_rc verify_found_all(const char *table, const kv_list *folders,
                              const kv_replay_how *how, kv_verify_found *out,
                              kv_err *e) {
  kv_found all = {0};
  kv_rc rc = kv_found_read(table, &all, e);
  for (int i = 0, n; i < all.n && !rc; i += n) {
    char path[4096];
    for (n = 1; i + n < all.n; n++)
      if (strcmp(all.row[i].trace, all.row[i + n].trace)) break;
    if (find_trace(table, folders, &all.row[i], sizeof path, path))
      rc = search(table, path, &all.row[i], n, how, out, e);
    else
      say_lost(table, &all.row[i], n, out);
  }
  kv_found_free(&all);
  return rc;
}

/* Prints the counts of rows by result; returns the exit code of the command. */
static int verify_found_conclude(const char *table, const kv_verify_found *n) {
  kv_err e = {0};
  printf("%d budgets match a search, %d differ, %d are of older revisions, %d "
         "have no trace\n",
         n->same, n->differed, n->older, n->lost);
  if (n->differed) return KV_DIFFERENT;
  if (n->lost) return KV_INPUT;
  if (n->same) return KV_OK;
  kv_fail(&e, KV_INPUT,
          "nothing was verified; make %.200s again with kvreplay run --found",
          table);
  return kv_say(&e);
}

typedef struct task {
  kv_verify_options options;
  const kv_kernels *kernels;
  int argc;
  char **argv;
  kv_environment environment;
  kv_db *db;
  kv_verify_rows rows;
  int count[KV_VERIFIABLES]; /* rows that could not be run, by reason */
  int same, differed;
  int64_t evaluations; /* also in the database */
  kv_verdicts verdicts;
  kv_progress progress;
  bool of_found; /* the file is a table of found budgets */
  kv_verify_found found;
} task;

static void tick(void *self, int64_t units) { kv_progress_add(self, units); }

static void verify_say(task *s, const kv_err *e) {
  kv_progress_end(&s->progress);
  kv_say(e);
}

/* --- verdicts ----------------------------------------------------------- */

static kv_verdict about(const kv_verify_row *v, kv_outcome outcome) {
  return (kv_verdict){
      .row = &v->row,
      .first = "database",
      .backend = kv_backend_ref.name,
      .outcome = outcome,
      .difference = {
          .layer = -1, .step = -1, .lane = -1, .head = -1, .index = -1}};
}

static kv_rc add_left(task *s, const kv_verify_row *v, kv_err *e) {
  bool other = v->can == KV_VERIFY_OTHER_CODE;
  kv_verdict out = about(v, other ? KV_SUPERSEDED : KV_NOT_FOUND);
  memcpy(out.difference.sentence, v->why, sizeof v->why);
  s->count[v->can]++;
  return kv_verdicts_add(&s->verdicts, &out, e);
}

/* Reports once for all cells with the same reason why they were not
 * verified. */
static void tell_left(task *s, const kv_verify_row *v) {
  int cells;
  kv_err e = {0};
  if (v->can == KV_VERIFY_OTHER_CODE ||
      !kv_verify_first_of(&s->rows, (int)(v - s->rows.row), &cells))
    return;
  kv_fail(&e, KV_INPUT, "%d cell%s not verified: %s", cells,
          cells == 1 ? " is" : "s are", v->why);
  verify_say(s, &e);
}

static kv_rc leave(task *s, const kv_verify_row *v, kv_err *e) {
  tell_left(s, v);
  return add_left(s, v, e);
}

/* --- replays ------------------------------------------------------------ */

static kv_rc parse_specs(kv_verify_row *const *v, int n, kv_specs *out,
                         kv_err *e) {
  kv_rc rc = KV_OK;
  out->spec = kv_zalloc((size_t)n, sizeof *out->spec);
  if (!out->spec)
    return kv_no_memory(e, "cells", (size_t)n * sizeof *out->spec);
  for (; out->n < n && !rc; out->n += !rc) {
    const char *spec = v[out->n]->row.spec;
    kv_err why = {0};
    rc = kv_spec_parse(kv_method_at, spec, &out->spec[out->n], &why);
    if (rc)
      return kv_fail(e, rc == KV_RESOURCE ? rc : KV_INPUT,
                     "the database has a row of '%.120s': %s", spec, why.text);
  }
  return rc;
}

static kv_rc verify_compare(task *s, const kv_verify_row *v, kv_cell *c,
                            kv_err *e) {
  kv_err why = {0};
  kv_verdict out = about(v, KV_EQUAL);
  kv_rc rc = kv_verify_set_up(v, c, &why);
  bool other = rc == KV_DIFFERENT;
  if (!rc) rc = kv_db_put(s->db, &c->result, &s->environment, &why);
  if (rc && rc != KV_DIFFERENT) return kv_fail(e, rc, "%s", why.text);
  s->same += !rc;
  s->differed += rc == KV_DIFFERENT;
  if (rc) {
    verify_say(s, &why);
    out.outcome = KV_DIFFERS;
    out.difference.what = "parameters";
    rc = other ? KV_OK
               : kv_verify_name(s->db, v, &c->result, &out.difference, e);
    memcpy(out.difference.sentence, why.text, sizeof why.text);
  }
  return rc ? rc : kv_verdicts_add(&s->verdicts, &out, e);
}

static kv_rc run_rows(task *s, kv_verify_row *const *v, int n, const char *path,
                      bool *stopped, kv_err *e) {
  const kv_result *r = &v[0]->row;
  kv_specs specs = {0};
  kv_budgets budgets = {0};
  kv_batch batch = {0};
  kv_verify_asked asked = {0};
  kv_replay_how how = {.backend = &kv_backend_ref,
                       .kernels = s->kernels,
                       .threads = kv_choose_threads(s->options.jobs),
                       .fidelity = true,
                       .scores = true,
                       .tick = tick,
                       .self = &s->progress,
                       .stop = kv_interrupted};
  kv_rc rc = parse_specs(v, n, &specs, e);
  kv_stop_cut(true);
  if (!rc)
    rc = kv_batch_open(&(kv_batch_ask){.path = path,
                                       .specs = &specs,
                                       .budgets = &budgets,
                                       .prompt_len = r->prompt_len,
                                       .observe = r->observe,
                                       .how = how,
                                       .db = s->db},
                       &batch, e);
  kv_stop_cut(false);
  for (int i = 0; !rc && i < batch.cells; i++)
    batch.cell[i].runs &= kv_verify_beside(v[i], &batch.cell[i]);
  if (!rc) rc = kv_verify_ask(s->db, v, &batch, &asked, e);
  how.watch = asked.watch;
  if (!rc) {
    kv_progress_start(&s->progress, stderr, r->trace, KV_REPLAY_UNIT,
                      kv_replay_units(batch.trace, r->prompt_len),
                      s->options.quiet);
    rc = kv_job_replay(&batch, &how, stopped, e);
    kv_progress_end(&s->progress);
  }
  if (!rc && !*stopped) rc = kv_verify_take(&asked, e);
  for (int i = 0; !rc && !*stopped && i < batch.cells; i++)
    rc = v[i]->can == KV_VERIFY_RUNS
             ? verify_compare(s, v[i], &batch.cell[i], e)
             : leave(s, v[i], e);
  kv_verify_asked_close(&asked);
  kv_batch_close(&batch);
  kv_specs_free(&specs);
  return rc;
}

/* Handles the rows of one trace and prompt: runs those that can be run and
 * reports the others. */
static kv_rc run_group(task *s, kv_verify_row *v, int n, kv_verify_row **runs,
                       bool *stopped, kv_err *e) {
  char path[4096] = "";
  int some = 0;
  kv_rc rc = KV_OK;
  for (int i = 0; i < n; i++)
    if (v[i].can == KV_VERIFY_RUNS) runs[some++] = &v[i];
  if (some)
    rc = kv_verify_trace(s->db, &s->options.traces, v, sizeof path, path, e);
  if (!rc && some && !*path) kv_verify_no_trace(&s->rows, &v->row);
  for (int i = 0; !rc && i < n; i++) {
    if (v[i].can == KV_VERIFY_RUNS) continue;
    rc = leave(s, &v[i], e);
  }
  if (!rc && *path) rc = run_rows(s, runs, some, path, stopped, e);
  return rc;
}

static int group_size(const task *s, int first) {
  const kv_result *a = &s->rows.row[first].row;
  int n = 1;
  for (; first + n < s->rows.n; n++) {
    const kv_result *b = &s->rows.row[first + n].row;
    if (b->prompt_len != a->prompt_len || b->observe != a->observe ||
        memcmp(&b->identity, &a->identity, sizeof a->identity))
      break;
  }
  return n;
}

static kv_rc run_all(task *s, bool *stopped, kv_err *e) {
  kv_rc rc = KV_OK;
  size_t most = (size_t)s->rows.n + 1;
  kv_verify_row **runs = kv_zalloc(most, sizeof *runs);
  if (!runs) return kv_no_memory(e, "rows", most * sizeof *runs);
  for (int i = 0, n; i < s->rows.n && !rc && !*stopped; i += n) {
    n = group_size(s, i);
    rc = run_group(s, &s->rows.row[i], n, runs, stopped, e);
  }
  free(runs);
  return rc;
}

/* --- the command -------------------------------------------------------- */

/* Evaluations need the model, which only the Python package runs. */
static const char again[] =
    "evaluations need 'kvreplay evaluate --again' instead";

static void count(const task *s, size_t size, char *out) {
  const int *left = s->count;
  int n = snprintf(out, size,
                   "%d rows match, %d differ, %d have no trace, %d have no "
                   "plugin, %d have no file, %d are of other code",
                   s->same, s->differed, left[KV_VERIFY_NO_TRACE],
                   left[KV_VERIFY_NO_PLUGIN], left[KV_VERIFY_NO_FILE],
                   left[KV_VERIFY_OTHER_CODE]);
  if (s->evaluations)
    snprintf(out + n, size - (size_t)n, "; %lld %s", (long long)s->evaluations,
             again);
}

/* Prints the verdicts. A table ends with the counts. Other formats are for
 * programs, so the counts go to standard error, unless something is wrong. */
static kv_rc print(task *s, bool whole, kv_err *e) {
  char closing[256];
  count(s, sizeof closing, closing);
  memcpy(s->verdicts.closing, closing, sizeof closing);
  bool table = s->verdicts.format == KV_VERDICTS_TABLE;
  kv_rc rc = kv_verdicts_close(&s->verdicts, e);
  if (!rc && whole && !table) kv_note(closing);
  return rc;
}

/* The exit code: rows that differ matter more than rows that did not run. */
static int conclude(void *self) {
  const task *s = self;
  const int *left = s->count;
  kv_err e = {0};
  if (s->of_found)
    return verify_found_conclude(s->options.db.item[0], &s->found);
  if (s->differed) return KV_DIFFERENT;
  if (left[KV_VERIFY_NO_TRACE] || left[KV_VERIFY_NO_PLUGIN] ||
      left[KV_VERIFY_NO_FILE])
    return KV_INPUT;
  if (s->same) return KV_OK;
  kv_fail(&e, KV_INPUT,
          left[KV_VERIFY_OTHER_CODE]
              ? "nothing was verified, because every row of %s is of other "
                "code; run its commands again%s%s"
              : "nothing was verified, because no row of %s has run%s%s",
          s->options.db.item[0], s->evaluations ? "; " : "",
          s->evaluations ? again : "");
  return kv_say(&e);
}

static kv_rc start(task *s, kv_err *e) {
  const char *path = s->options.db.item[0];
  kv_rc rc = kv_choose_kernels(&s->kernels, e);
  if (rc) return rc;
  kv_environment_look(s->kernels->name, s->argc, s->argv, &s->environment);
  struct stat file; /* verify never makes a database */
  if (access(path, R_OK) || stat(path, &file) || !S_ISREG(file.st_mode))
    return kv_fail(
        e, KV_INPUT,
        "cannot read %s; name a database that 'kvreplay run --db' wrote", path);
  if (file.st_size == 0) /* SQLite would treat it as a new database */
    return kv_fail(
        e, KV_INPUT,
        "%s is empty; name a database that 'kvreplay run --db' wrote", path);
  kv_db_wait wait = kv_job_wait(s->options.quiet, &s->progress);
  rc = kv_db_open_found(path, &wait, &s->db, e);
  if (!rc && kv_db_still(s->db))
    kv_note("the database is read-only: results are printed but not stored as "
            "confirmations");
  if (!rc) rc = kv_db_evaluations(s->db, &s->evaluations, e);
  return rc ? rc : kv_verify_rows_read(s->db, &s->rows, e);
}

static kv_rc verify(task *s, bool *stopped, kv_err *e) {
  kv_err closing = {0};
  kv_verdicts_open((kv_verdict_format)s->options.format, "kvreplay verify",
                   stdout, &s->verdicts);
  kv_rc rc = run_all(s, stopped, e);
  if (rc && s->verdicts.n == 0) {
    kv_verdicts_drop(&s->verdicts);
    return rc;
  }
  kv_rc closed = print(s, !rc, &closing);
  return rc || !closed ? rc : kv_fail(e, closed, "%s", closing.text);
}

/* For a table of found budgets instead of a database. */
static kv_rc search_again(task *s, kv_err *e) {
  kv_rc rc = kv_choose_kernels(&s->kernels, e);
  kv_replay_how how = {.backend = &kv_backend_ref,
                       .kernels = s->kernels,
                       .threads = kv_choose_threads(s->options.jobs),
                       .stop = kv_interrupted};
  if (s->options.format != KV_VERDICTS_TABLE)
    return kv_fail(e, KV_USAGE,
                   "--format is for the rows of a database; leave it out");
  kv_stop_cut(true);
  if (!rc)
    rc = verify_found_all(s->options.db.item[0], &s->options.traces, &how,
                          &s->found, e);
  kv_stop_cut(false);
  return rc;
}

static void begin(void *self, int argc, char **argv) {
  task *s = self;
  s->argc = argc;
  s->argv = argv;
}

static kv_rc work(void *self, bool *stopped, kv_err *e) {
  task *s = self;
  kv_stop_watch();
  s->of_found = kv_found_is(s->options.db.item[0]);
  kv_rc rc = s->of_found ? search_again(s, e) : start(s, e);
  if (!rc && !s->of_found) rc = verify(s, stopped, e);
  if (kv_interrupted()) *stopped = true;
  return rc;
}

static void interrupted(void *self) {
  (void)self;
  kv_note("interrupted: compared rows are confirmed in the database; repeat "
          "the command to compare all");
}

static void clean(void *self) {
  task *s = self;
  kv_stop_unwatch();
  kv_verify_rows_free(&s->rows);
  kv_db_close(s->db);
}

static const kv_task task_verify = {sizeof(task), begin,    NULL, work,
                                    interrupted,  conclude, clean};

const kv_command kv_command_verify = {
    KV_COMMAND(verify, "run the rows of a database again and compare digests"),
    KV_TAKES("DB", 1, 1, kv_verify_options, db, KV_USE_KEPT)};
