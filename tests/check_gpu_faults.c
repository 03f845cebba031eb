/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that fails: out of memory, a start or a copy refused, lost while it
 * is waited for, each at every place where it can happen in a small replay of
 * methods that drop, merge, code and choose. The replay ends with the
 * device's sentence and KV_RESOURCE, gives back all that it took, and `check`
 * exits with 4 and keeps what it had printed and stored before.
 */
#include "gpu/backends.h"
#include "sim/replay.h"
#include "sim/spec.h"
#include "sim/verbs.h"
#include "tests/gpudevice.h"
#include "tests/scratch.h"
#include "traces/synth.h"

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TOKENS = 16, PROMPT = 10, LAYERS = 2, MOST = 1 << 14 };

static const kv_backend *backend;
static char trace[512], again[512];

/* These take the place of gpu/backends.c. */
const kv_backend *kv_backend_find(const char *name, kv_err *e) {
  if (!strcmp(name, "ref")) return &kv_backend_ref;
  if (!strcmp(name, backend->name)) return backend;
  kv_fail(e, KV_USAGE, "there is no backend '%s'", name);
  return NULL;
}

int kv_backends_default(const kv_backend **out, int room) {
  assert_true(room >= 2);
  out[0] = &kv_backend_ref;
  out[1] = backend;
  return 2;
}

/* --- a replay ------------------------------------------------------------- */

typedef struct walk {
  const char *const *spec; /* [cells] */
  int cells;
  bool fidelity;
} walk;

static void open_cell(const kv_trace *t, const char *text, kv_cell *c) {
  kv_spec spec = {0};
  kv_err e = {0};
  kv_asked_cell asked = {.spec = &spec, .entries = 8};
  kv_rc rc = kv_spec_parse(kv_method_at, text, &spec, &e);
  if (!rc) rc = kv_cell_open(t, 0, kv_kernels_best(), &asked, c, &e);
  if (rc || !c->runs) fail_msg("%s: %s%s", text, e.text, c->result.reason);
  kv_spec_free(&spec);
}

static kv_rc replay(const walk *w, kv_err *e) {
  enum { CELLS = 4 };
  kv_trace *t = NULL;
  kv_cell cell[CELLS], *each[CELLS];
  bool stopped;
  kv_replay_how how = {.backend = backend,
                       .kernels = kv_kernels_best(),
                       .threads = 1,
                       .fidelity = w->fidelity};
  assert_true(w->cells <= CELLS);
  if (kv_trace_open(trace, &t, e)) fail_msg("%s", e->text);
  for (int i = 0; i < w->cells; i++)
    open_cell(t, w->spec[i], each[i] = &cell[i]);
  kv_rc rc = kv_replay(t, each, w->cells, &how, &stopped, e);
  for (int i = 0; i < w->cells; i++) kv_cell_close(&cell[i]);
  kv_trace_close(t);
  return rc;
}

/* Lets the n-th call of a kind fail; false: there are not so many. */
static bool fails_at(const walk *w, gpudevice_kind kind, int64_t n) {
  kv_err e = {0};
  gpudevice_fail(kind, n);
  kv_rc rc = replay(w, &e);
  if (gpudevice_held() != 0)
    fail_msg("kind %d, call %d: %d things are not given back", kind, (int)n,
             (int)gpudevice_held());
  if (!gpudevice_failed()) {
    if (rc) fail_msg("nothing failed: %s", e.text);
    return false;
  }
  if (rc != KV_RESOURCE || !strstr(e.text, GPUDEVICE_SENTENCE) ||
      !strstr(e.text, "backend lame") || strchr(e.text, '\n'))
    fail_msg("kind %d, call %d: %d, '%s'", kind, (int)n, rc, e.text);
  return true;
}

static void fails_everywhere(const walk *w) {
  for (int kind = 0; kind < GPUDEVICE_KINDS; kind++) {
    int64_t n = 0;
    while (n < MOST && fails_at(w, (gpudevice_kind)kind, n)) n++;
    assert_in_range(n, 5, MOST - 1);
  }
}

static void test_rewriting(void **state) {
  static const char *const spec[] = {"zsmerge", "kivi:residual=4:group=4"};
  (void)state;
  fails_everywhere(&(walk){spec, 2, true});
}

static void test_views(void **state) {
  static const char *const spec[] = {"quest:page=4:skip=0", "h2o",
                                     "streamingllm"};
  (void)state;
  fails_everywhere(&(walk){spec, 3, false});
}

/* --- the command ---------------------------------------------------------- */

static char heard[1 << 16], said[1 << 12];

static void read_back(const char *path, size_t size, char *text) {
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  text[fread(text, 1, size - 1, f)] = 0;
  fclose(f);
}

static int redirect(FILE *stream, const char *path) {
  int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  fflush(stream);
  int kept = dup(fileno(stream));
  assert_true(to >= 0 && kept >= 0);
  dup2(to, fileno(stream));
  close(to);
  return kept;
}

static void restore(FILE *stream, int kept) {
  fflush(stream);
  dup2(kept, fileno(stream));
  close(kept);
}

/* check of both traces, into a database. */
static int check(char *db) {
  char *argv[] = {"check",      "-q", trace,      again,  "-m",
                  "h2o,window", "-b", "8",        "-B",   "ref,lame",
                  "--db",       db,   "--format", "json", NULL};
  char out[512], err[512];
  snprintf(out, sizeof out, "%s", scratch_path("out"));
  snprintf(err, sizeof err, "%s", scratch_path("err"));
  int a = redirect(stdout, out), b = redirect(stderr, err);
  int code = kv_verb_check(14, argv);
  restore(stdout, a);
  restore(stderr, b);
  read_back(out, sizeof heard, heard);
  read_back(err, sizeof said, said);
  return code;
}

static int rows_in(const char *db) {
  sqlite3 *s;
  sqlite3_stmt *q;
  assert_int_equal(sqlite3_open(db, &s), SQLITE_OK);
  assert_int_equal(
      sqlite3_prepare_v2(s, "select count(*) from run", -1, &q, NULL),
      SQLITE_OK);
  assert_int_equal(sqlite3_step(q), SQLITE_ROW);
  int n = sqlite3_column_int(q, 0);
  sqlite3_finalize(q);
  sqlite3_close(s);
  return n;
}

static size_t verdicts(void) {
  json_t *j = json_loads(heard, 0, NULL);
  if (!j) fail_msg("this is no JSON: %s", heard);
  json_t *all = json_is_array(j) ? j : json_object_get(j, "verdicts");
  size_t n = json_array_size(all);
  json_decref(j);
  return n;
}

/* Lost in the second trace: the first one's verdicts and rows are kept, and
 * the reference's rows of the second. */
static void test_check(void **state) {
  (void)state;
  char whole[512], half[512];
  snprintf(whole, sizeof whole, "%s", scratch_path("whole.db"));
  snprintf(half, sizeof half, "%s", scratch_path("half.db"));
  gpudevice_reset();
  assert_int_equal(check(whole), 0);
  assert_int_equal(verdicts(), 4);
  int64_t waits = gpudevice_counted().waits;
  gpudevice_fail(GPUDEVICE_WAIT, waits * 3 / 4);
  assert_int_equal(check(half), KV_RESOURCE);
  if (!strstr(said, GPUDEVICE_SENTENCE) ||
      strchr(said, '\n') != said + strlen(said) - 1)
    fail_msg("this is not one line with the sentence: %s", said);
  assert_int_equal(verdicts(), 2);
  assert_int_equal(rows_in(half), rows_in(whole));
  assert_int_equal(gpudevice_held(), 0);
}

/* --- what a device must be ------------------------------------------------ */

static void test_params(void **state) {
  (void)state;
  kv_method other = *kv_method_named("window");
  kv_trace *t = NULL;
  kv_cell cell;
  kv_store *store = NULL;
  kv_err e = {0};
  gpudevice_reset();
  if (kv_trace_open(trace, &t, &e)) fail_msg("%s", e.text);
  open_cell(t, "window", &cell);
  other.params_size += 8;
  cell.plan.method = &other;
  assert_int_equal(backend->open(&cell.plan, &store, &e), KV_RESOURCE);
  if (!strstr(e.text, "of another kvreplay")) fail_msg("%s", e.text);
  assert_int_equal(gpudevice_counted().call[GPUDEVICE_MEMORY], 0);
  kv_cell_close(&cell);
  kv_trace_close(t);
}

static void make_trace(char *path, const char *name, uint64_t seed) {
  kv_synth s = {.like = {.name = "faults",
                         .n_layers = LAYERS,
                         .n_heads = 4,
                         .n_kv_heads = 2,
                         .d = 8,
                         .theta = 10000,
                         .dtype = KV_F32},
                .n_tokens = TOKENS,
                .prompt_len = PROMPT,
                .seed = seed};
  kv_err e = {0};
  snprintf(path, 512, "%s", scratch_path(name));
  if (kv_synth_write(&s, kv_kernels_best(), path, &e)) fail_msg("%s", e.text);
}

static int setup(void **state) {
  if (scratch_make(state) || unsetenv("KVREPLAY_ISA")) return 1;
  make_trace(trace, "one.safetensors", 3);
  make_trace(again, "two.safetensors", 4);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rewriting), cmocka_unit_test(test_views),
      cmocka_unit_test(test_check), cmocka_unit_test(test_params)};
  backend = gpudevice_open();
  if (!backend) return 77;
  return cmocka_run_group_tests_name("gpu_faults", tests, setup,
                                     scratch_remove);
}
