/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that fails: out of memory, a start or a copy refused, lost while it
 * is waited for, each at every place where it can happen in a small replay of
 * methods that drop, merge, code and choose. The replay ends with the
 * device's sentence and KV_RESOURCE, gives back all that it took, and `check`
 * exits with 4 and keeps what it had printed and stored before. A device that
 * has no memory has not failed: what comes after has it. The host's side over
 * any device; the CUDA module's own is asked by check_gpu_runtime.c.
 */
#include "gpu/host/backends.h"
#include "sim/ask/spec.h"
#include "sim/cli/commands.h"
#include "sim/replay/engine/replay.h"
#include "tests/laws/cells.h"
#include "tests/support/backend/gpudevice.h"
#include "tests/support/little.h"
#include "tests/support/program/command.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/trace/small.h"
#include "traces/trace/trace.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 16, PROMPT = 10, LAYERS = 2, MOST = 1 << 14 };

static const kv_backend *backend;
static char trace[512], again[512];

/* These take the place of gpu/host/backends.c. */
const kv_backend *kv_backend_find(const char *name, kv_err *e) {
  if (!strcmp(name, "ref")) return &kv_backend_ref;
  if (!strcmp(name, backend->name)) return backend;
  kv_fail(e, KV_USAGE, "no backend is called '%s'", name);
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

static kv_rc replay(const walk *w, kv_err *e) {
  enum { CELLS = 4 };
  kv_trace *t = NULL;
  kv_cell cell[CELLS], *each[CELLS];
  bool stopped;
  kv_replay_how how = {.backend = backend,
                       .kernels = kv_kernels_best(),
                       .threads = 1,
                       .fidelity = w->fidelity,
                       .scores = w->fidelity};
  assert_true(w->cells <= CELLS);
  if (kv_trace_open(trace, &t, e)) fail_msg("%s", e->text);
  for (int i = 0; i < w->cells; i++)
    cells_must(kv_method_at, t, 0, w->spec[i], 8, each[i] = &cell[i]);
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
    while (n < MOST && fails_at(w, (gpudevice_kind)kind, n))
      n += little_step(3);
    assert_in_range(n, 5, MOST - 1);
  }
}

TEST(test_rewriting) {
  static const char *const spec[] = {"zsmerge", "kivi:residual=4:group=4"};
  fails_everywhere(&(walk){spec, 2, true});
}

TEST(test_views) {
  static const char *const spec[] = {"quest:page=4:skip=0", "h2o",
                                     "streamingllm"};
  fails_everywhere(&(walk){spec, 3, false});
}

/* Wherever memory ends, the replay does, gives back what it took, and leaves a
 * device that works: the next one succeeds. */
TEST(test_memory) {
  static const char *const spec[] = {"zsmerge", "kivi:residual=4:group=4"};
  const walk w = {spec, 2, true};
  kv_err e = {0};
  int64_t n = 0;
  for (;; n += little_step(3)) {
    gpudevice_refuse(n);
    kv_rc rc = replay(&w, &e);
    assert_int_equal(gpudevice_held(), 0);
    if (!gpudevice_refused()) break;
    if (rc != KV_RESOURCE || !strstr(e.text, GPUDEVICE_NONE))
      fail_msg("memory %d: %d, '%s'", (int)n, rc, e.text);
    assert_true(backend->lacked());
    assert_false(backend->lacked());
    if (replay(&w, &e)) fail_msg("memory %d, again: %s", (int)n, e.text);
  }
  assert_in_range(n, 5, MOST - 1);
}

/* --- the command ---------------------------------------------------------- */

/* check of both traces, into a database. */
static int check(const char *db) {
  const char *const words[] = {
      "check", "-q",       trace,  again, "-m",       "h2o,window", "-b", "8",
      "-B",    "ref,lame", "--db", db,    "--format", "json",       NULL};
  return command_call(kv_commands_call, words);
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
TEST(test_check) {
  static const char rows[] = "SELECT count(*) FROM run";
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
  assert_int_equal(number_in(half, rows), number_in(whole, rows));
  assert_int_equal(gpudevice_held(), 0);
}

/* No memory for the first trace of two: its cells fail by the sentence, the
 * other's rows are those of a run without it. */
TEST(test_run) {
  const char *both[] = {"run",        "-q",   trace, again, "-m",
                        "h2o,window", "-b",   "8",   "-B",  backend->name,
                        "-f",         "json", NULL};
  gpudevice_refuse(4);
  assert_int_equal(command_call(kv_commands_call, both), KV_RESOURCE);
  if (!strstr(said, GPUDEVICE_NONE)) fail_msg("it says: %s", said);
  json_t *all = json_loads(heard, 0, NULL);
  if (!all) fail_msg("this is no JSON: %s", heard);
  assert_int_equal(json_array_size(all), 4);
  for (size_t i = 0; i < 4; i++) {
    json_t *status = json_object_get(json_array_get(all, i), "status");
    assert_string_equal(json_string_value(status), i < 2 ? "failed" : "ok");
  }
  json_decref(all);
  assert_int_equal(gpudevice_held(), 0);
}

/* --- what a device must be ------------------------------------------------ */

TEST(test_params) {
  kv_method other = *kv_method_named("window");
  kv_trace *t = NULL;
  kv_cell cell;
  kv_store *store = NULL;
  kv_err e = {0};
  gpudevice_reset();
  if (kv_trace_open(trace, &t, &e)) fail_msg("%s", e.text);
  cells_must(kv_method_at, t, 0, "window", 8, &cell);
  other.params_size += 8;
  cell.plan.method = &other;
  assert_int_equal(backend->open(&cell.plan, &store, &e), KV_RESOURCE);
  if (!strstr(e.text, "of another kvreplay")) fail_msg("%s", e.text);
  assert_int_equal(gpudevice_counted().call[GPUDEVICE_MEMORY], 0);
  kv_cell_close(&cell);
  kv_trace_close(t);
}

static void make_trace(char *path, const char *name, uint64_t seed) {
  const kv_small t = {"faults", LAYERS, 4, 2, 8, KV_F32, TOKENS, PROMPT};
  kv_err e = {0};
  snprintf(path, 512, "%s", scratch_path(name));
  if (kv_small_write(&t, seed, path, &e)) fail_msg("%s", e.text);
}

static int setup(void **state) {
  if (scratch_make(state) || unsetenv("KVREPLAY_ISA")) return 1;
  make_trace(trace, "one.safetensors", 3);
  make_trace(again, "two.safetensors", 4);
  return 0;
}

int main(void) {
  backend = gpudevice_open();
  if (!backend) return 77;
  return tests_run("gpu_faults", setup, scratch_remove);
}
