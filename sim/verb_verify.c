/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay verify`: runs the rows of a database again, trace by trace, and
 * stores what it finds as confirmations. Rows of superseded code and of
 * another arithmetic cannot be run by this program; they are counted and
 * left. Rows that were refused or failed hold no digest and are left, too.
 */
#include "sim/verbs.h"

#include "ref/arith.h"
#include "sim/batch.h"
#include "sim/door.h"
#include "sim/options_verify.h"
#include "sim/param.h"
#include "sim/signal.h"
#include "traces/filehash.h"
#include "traces/progress.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
  kv_digest identity;
  char trace[256], key[65], target[64];
  char *spec, *params;
  kv_basis basis;
  int prompt_len;
} row;

typedef struct session {
  kv_verify_options options;
  const kv_kernels *kernels;
  kv_environment environment;
  kv_db *db;
  row *row;
  int rows, room, left; /* left: not for this program */
  int same, differed, unfound;
  kv_progress progress;
} session;

static void tick(void *self, int64_t units) { kv_progress_add(self, units); }

static void say(session *s, const kv_err *e) {
  kv_progress_end(&s->progress);
  kv_say(e);
}

/* --- which rows ----------------------------------------------------------- */

/* Is the file of decisions that the row followed where it was, the same? */
static bool follows(const kv_result *r) {
  kv_spec spec = {0};
  kv_digest bytes;
  char hex[65] = "";
  if (!r->code || kv_spec_parse(kv_method_at, r->spec, &spec, NULL))
    return false;
  if (!kv_file_digest(kv_spec_decisions(&spec), &bytes, NULL))
    kv_digest_hex(&bytes, hex);
  kv_spec_free(&spec);
  return strcmp(hex, r->code) == 0;
}

/* Can this program compute the row? A plugin is looked for in the folders of
 * KVREPLAY_PLUGINS and must be the same file; a database names no paths. */
static bool ours(const kv_result *r) {
  const kv_method *m = NULL;
  if (!kv_result_ran(r) || r->arithmetic != KV_ARITHMETIC ||
      kv_door_is_path(r->method) || kv_door_is_path(r->spec) ||
      kv_registry_find(kv_method_at, r->method, &m, NULL))
    return false;
  if (m->decisions) return follows(r);
  const char *code = kv_door_code(m);
  if (r->code || code) return r->code && code && !strcmp(r->code, code);
  return m->revision == r->revision;
}

static kv_rc add(session *s, const char *key, const kv_result *r, kv_err *e) {
  if (s->rows == s->room) {
    int more = s->room ? 2 * s->room : 64;
    row *bigger = realloc(s->row, (size_t)more * sizeof *bigger);
    if (!bigger) return kv_no_memory(e, "rows", (size_t)more * sizeof *bigger);
    s->row = bigger;
    s->room = more;
  }
  row *to = &s->row[s->rows];
  *to = (row){.identity = r->identity,
              .basis = r->basis,
              .prompt_len = r->prompt_len,
              .spec = strdup(r->spec),
              .params = strdup(r->params)};
  s->rows++;
  if (!to->spec || !to->params)
    return kv_no_memory(e, "a row", strlen(r->spec));
  memcpy(to->trace, r->trace, sizeof to->trace);
  memcpy(to->target, r->target, sizeof to->target);
  memcpy(to->key, key, sizeof to->key);
  return KV_OK;
}

static int by_trace(const void *a, const void *b) {
  const row *x = a, *y = b;
  int order = memcmp(&x->identity, &y->identity, sizeof x->identity);
  if (!order) order = x->prompt_len - y->prompt_len;
  return order ? order : strcmp(x->key, y->key);
}

static kv_rc list_rows(session *s, kv_err *e) {
  char key[65] = "";
  bool more = true;
  kv_rc rc = KV_OK;
  while (!rc) {
    kv_result r;
    rc = kv_db_next(s->db, key, &r, &more, e);
    if (rc || !more) break;
    if (ours(&r))
      rc = add(s, key, &r, e);
    else
      s->left += kv_result_ran(&r);
    kv_result_free(&r);
  }
  if (s->rows) qsort(s->row, (size_t)s->rows, sizeof *s->row, by_trace);
  return rc;
}

/* --- where the trace is -----------------------------------------------------
 */

/* A file that is bad is another file; want of memory is not. */
static kv_rc is_it(const char *path, const kv_digest *identity, bool *same,
                   kv_err *e) {
  kv_trace *t = NULL;
  kv_digest found;
  kv_err why = {0};
  kv_rc rc = kv_trace_open(path, &t, &why);
  if (!rc) rc = kv_trace_identity(t, &found, &why);
  *same = !rc && !memcmp(&found, identity, sizeof found);
  kv_trace_close(t);
  return rc == KV_RESOURCE ? kv_fail(e, rc, "%s", why.text) : KV_OK;
}

/* Where it was seen, then in the folders named; "" if nowhere. */
static kv_rc find_trace(session *s, const row *r, size_t size, char *path,
                        kv_err *e) {
  bool same = false;
  for (int i = 0;; i++) {
    kv_rc rc = kv_db_path(s->db, &r->identity, i, size, path, e);
    if (rc) return rc;
    if (!*path) break;
    rc = is_it(path, &r->identity, &same, e);
    if (rc || same) return rc;
  }
  for (int i = 0; i < s->options.traces.n; i++) {
    snprintf(path, size, "%s/%s.safetensors", s->options.traces.item[i],
             r->trace);
    kv_rc rc = is_it(path, &r->identity, &same, e);
    if (rc || same) return rc;
  }
  *path = 0;
  return KV_OK;
}

/* --- again ------------------------------------------------------------------
 */

static kv_rc parse_specs(const row *r, int n, kv_specs *out, kv_err *e) {
  kv_rc rc = KV_OK;
  out->spec = kv_zalloc((size_t)n, sizeof *out->spec);
  if (!out->spec)
    return kv_no_memory(e, "cells", (size_t)n * sizeof *out->spec);
  for (; out->n < n && !rc; out->n += !rc)
    rc = kv_spec_parse(kv_method_at, r[out->n].spec, &out->spec[out->n], e);
  return rc;
}

/* Older rows name the whole path of their decisions, in params too: where the
 * specification is that of the row to the letter, so are the params. */
static kv_rc take_params(const row *r, kv_cell *c, kv_err *e) {
  if (!c->spec.method->decisions || strcmp(c->result.spec, r->spec) != 0)
    return KV_OK;
  char *own = strdup(r->params);
  if (!own) return kv_no_memory(e, "a row", strlen(r->params));
  free(c->result.params);
  c->result.params = own;
  return KV_OK;
}

/* The cell must be the row: same key, so same parameters to the letter. */
static kv_rc check_key(const row *r, kv_cell *c, kv_err *e) {
  char key[65];
  kv_rc rc = take_params(r, c, e);
  if (rc) return rc;
  c->result.basis = r->basis;
  memcpy(c->result.target, r->target, sizeof r->target);
  kv_db_key(&c->result, key);
  if (c->runs && !strcmp(key, r->key)) return KV_OK;
  return kv_fail(
      e, KV_DIFFERENT, "%s on %s cannot be set up again as it was: %s", r->spec,
      r->trace,
      c->runs ? "its parameters resolve differently" : c->result.reason);
}

static kv_rc compare(session *s, const row *r, const kv_batch *b, kv_err *e) {
  for (int i = 0; i < b->cells; i++) {
    kv_err why = {0};
    kv_rc rc = check_key(&r[i], &b->cell[i], &why);
    if (!rc) rc = kv_db_put(s->db, &b->cell[i].result, &s->environment, &why);
    if (rc && rc != KV_DIFFERENT) return kv_fail(e, rc, "%s", why.text);
    if (rc) say(s, &why);
    s->same += !rc;
    s->differed += rc == KV_DIFFERENT;
  }
  return KV_OK;
}

static kv_rc run_group(session *s, const row *r, int n, const char *path,
                       bool *stopped, kv_err *e) {
  kv_specs specs = {0};
  kv_budgets budgets = {0};
  kv_batch batch = {0};
  kv_replay_how how = {.backend = &kv_backend_ref,
                       .kernels = s->kernels,
                       .threads = s->options.jobs ? s->options.jobs
                                                  : omp_get_num_procs(),
                       .fidelity = true,
                       .tick = tick,
                       .self = &s->progress,
                       .stop = kv_interrupted};
  kv_rc rc = parse_specs(r, n, &specs, e);
  if (!rc)
    rc = kv_batch_open(&(kv_batch_ask){.path = path,
                                       .specs = &specs,
                                       .budgets = &budgets,
                                       .prompt_len = r->prompt_len,
                                       .how = how,
                                       .db = s->db},
                       &batch, e);
  if (!rc) {
    kv_progress_start(&s->progress, stderr, r->trace, KV_REPLAY_UNIT,
                      kv_replay_units(batch.trace, r->prompt_len),
                      s->options.quiet);
    rc = kv_replay(batch.trace, batch.each, batch.cells, &how, stopped, e);
    kv_progress_end(&s->progress);
  }
  if (!rc && !*stopped) rc = compare(s, r, &batch, e);
  kv_batch_close(&batch);
  kv_specs_free(&specs);
  return rc;
}

static int group_size(const session *s, int first) {
  const row *a = &s->row[first];
  int n = 1;
  while (first + n < s->rows && a[n].prompt_len == a->prompt_len &&
         !memcmp(&a[n].identity, &a->identity, sizeof a->identity))
    n++;
  return n;
}

static kv_rc run_all(session *s, bool *stopped, kv_err *e) {
  char path[4096];
  kv_rc rc = KV_OK;
  for (int i = 0, n; i < s->rows && !rc && !*stopped; i += n) {
    n = group_size(s, i);
    rc = find_trace(s, &s->row[i], sizeof path, path, e);
    if (!rc && *path)
      rc = run_group(s, &s->row[i], n, path, stopped, e);
    else if (!rc) {
      kv_err why = {0};
      kv_fail(&why, KV_INPUT,
              "%s is not where it was: name its folder with --traces",
              s->row[i].trace);
      kv_say(&why);
      s->unfound += n;
    }
  }
  return rc;
}

/* --- the command
 * -------------------------------------------------------------- */

static int conclude(const session *s) {
  printf("%d rows the same, %d different, %d without their trace, %d of other "
         "code\n",
         s->same, s->differed, s->unfound, s->left);
  if (s->differed) return KV_DIFFERENT;
  return s->unfound ? KV_INPUT : KV_OK;
}

static kv_rc start(session *s, int argc, char **argv, kv_err *e) {
  const char *path = s->options.db.item[0];
  kv_rc rc = kv_verb_kernels(&s->kernels, e);
  if (rc) return rc;
  kv_environment_look(s->kernels->name, argc, argv, &s->environment);
  FILE *f = fopen(path, "r"); /* verify never makes a database */
  if (!f)
    return kv_fail(e, KV_INPUT,
                   "there is no readable file %s: name the database that "
                   "'kvreplay run --db' wrote",
                   path);
  bool empty = fgetc(f) == EOF; /* SQLite would take it for a new one */
  fclose(f);
  if (empty)
    return kv_fail(e, KV_INPUT,
                   "%s is empty: name the database that 'kvreplay run --db' "
                   "wrote",
                   path);
  rc = kv_db_open(path, &s->db, e);
  return rc ? rc : list_rows(s, e);
}

int kv_verb_verify(int argc, char **argv) {
  session s = {0};
  kv_err e = {0};
  kv_asked asked = KV_ASKED_WORK;
  bool stopped = false;
  kv_rc rc =
      kv_options_parse(&kv_command_verify, argc, argv, &s.options, &asked, &e);
  if (!rc && asked != KV_ASKED_WORK) {
    int code = kv_verb_answer(asked, &kv_command_verify);
    kv_list_free(&s.options.db);
    kv_list_free(&s.options.traces);
    return code;
  }
  if (!rc) rc = start(&s, argc, argv, &e);
  if (!rc) rc = run_all(&s, &stopped, &e);
  if (stopped || kv_interrupted()) {
    kv_note("interrupted: what was compared is confirmed in the database; "
            "repeat the command to compare all");
  }
  int code = stopped || kv_interrupted() ? KV_EXIT_INTERRUPTED
             : rc                        ? kv_say(&e)
                                         : conclude(&s);
  for (int i = 0; i < s.rows; i++) {
    free(s.row[i].spec);
    free(s.row[i].params);
  }
  free(s.row);
  kv_db_close(s.db);
  kv_list_free(&s.options.db);
  kv_list_free(&s.options.traces);
  return code;
}
