/* SPDX-License-Identifier: Apache-2.0
 *
 * The host part of the CUDA module (gpu/module/cuda.cu, word for word) over a
 * runtime that answers as it is told (tests/cudart), which runs the kernels of
 * the executor. Replays through it are the reference's. A call that finds no
 * memory, wherever it is, is survived if there is some the second time; if
 * not, the replay ends with a sentence that says how much there is and who has
 * it, all is given back, and the next one goes on. Memory that the pool keeps
 * is used before any is said to be missing, and goes back after a trace. A
 * device whose pool is missing or broken is allocated from plainly. One that
 * is lost is so for good.
 */
#include "gpu/host/backends.h"
#include "gpu/host/store.h"
#include "sim/ask/spec.h"
#include "sim/cli/commands.h"
#include "sim/replay/engine/replay.h"
#include "tests/cudart/cudart.h"
#include "tests/laws/cells.h"
#include "tests/support/program/command.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/trace/small.h"
#include "traces/trace/trace.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  TOKENS = 12,
  PROMPT = 9,
  LAYERS = 2,
  CELLS = 2,
  MOST = 1 << 14,
  NO_MEMORY = 2,
  LOST = 719,
  BYTES = 1 << 26
};

const kv_device *kv_device_module(const char **why);

/* Functions that can find no memory. */
static const char *const wants[] = {
    "a kernel",        "cudaMallocAsync",      "cudaMallocHost",
    "cudaMemcpyAsync", "cudaMemsetAsync",      "cudaStreamBeginCapture",
    "cudaGraphLaunch", "cudaStreamEndCapture", "cudaGraphInstantiateWithFlags",
};
enum { WANTS = sizeof wants / sizeof *wants };

static const char *const spec[CELLS] = {"zsmerge", "kivi:residual=4:group=4"};
static const kv_device *device;
static kv_backend backend;
static char trace[512], again[512];
static kv_digest expected[CELLS][3]; /* journal, state, output */

/* --- the backend ---------------------------------------------------------- */

/* These take the place of gpu/host/backends.c. */
const kv_backend *kv_backend_find(const char *name, kv_err *e) {
  if (!strcmp(name, "ref")) return &kv_backend_ref;
  if (!strcmp(name, backend.name)) return &backend;
  kv_fail(e, KV_USAGE, "no backend is called '%s'", name);
  return NULL;
}

int kv_backends_default(const kv_backend **out, int room) {
  assert_true(room >= 2);
  out[0] = &kv_backend_ref;
  out[1] = &backend;
  return 2;
}

static kv_rc open_cuda(const kv_plan *plan, kv_store **out, kv_err *e) {
  return kv_gpu_open(device, plan, out, e);
}

static bool lacked(void) { return kv_gpu_lacked(device); }

/* The module on a device of so many bytes; once a process. */
static void open_module(size_t bytes, cudart_pool pool) {
  const char *why = "";
  cudart_reset(bytes, pool);
  device = kv_device_module(&why);
  if (!device) fail_msg("%s", why);
  backend = kv_backend_emu;
  backend.name = device->name;
  backend.open = open_cuda;
  backend.lacked = lacked;
}

/* --- a replay ------------------------------------------------------------- */

static void take_digests(const kv_cell *cell, kv_digest to[CELLS][3]) {
  for (int i = 0; i < CELLS; i++) {
    to[i][0] = cell[i].result.journal;
    to[i][1] = cell[i].result.state;
    to[i][2] = cell[i].result.output;
  }
}

static kv_rc replay(const kv_backend *on, kv_digest got[CELLS][3], kv_err *e) {
  kv_trace *t = NULL;
  kv_cell cell[CELLS], *each[CELLS];
  bool stopped;
  kv_replay_how how = {.backend = on,
                       .kernels = kv_kernels_best(),
                       .threads = 1,
                       .scores = true};
  if (kv_trace_open(trace, &t, e)) fail_msg("%s", e->text);
  for (int i = 0; i < CELLS; i++)
    cells_must(kv_method_at, t, 0, spec[i], 8, each[i] = &cell[i]);
  kv_rc rc = kv_replay(t, each, CELLS, &how, &stopped, e);
  if (!rc) take_digests(cell, got);
  for (int i = 0; i < CELLS; i++) kv_cell_close(&cell[i]);
  kv_trace_close(t);
  return rc;
}

/* A replay that must succeed with the reference's digests. */
static void equal(const char *after) {
  kv_digest got[CELLS][3];
  kv_err e = {0};
  if (replay(&backend, got, &e)) fail_msg("%s: %s", after, e.text);
  if (memcmp(got, expected, sizeof got)) fail_msg("%s: other digests", after);
}

/* What is true after every replay that did not lose the device. */
static void nothing_left(void) {
  assert_int_equal(cudart_held(), 0);
  assert_int_equal(cudart_reserved(), 0);
  assert_int_equal(cudart_spoilt(), 0);
}

/* Every case of a loop with KV_BIG=1, else one in `of`. */
static int step(int of) {
  const char *big = getenv("KV_BIG");
  return big && !strcmp(big, "1") ? 1 : of;
}

/* In a process of its own, as a module is opened once. Its test fails if a
 * check there does. */
static int apart(int (*run)(int64_t), int64_t n) {
  int status = -1;
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(run(n));
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status)) fail_msg("case %d broke off", (int)n);
  return WEXITSTATUS(status);
}

/* --- pools ---------------------------------------------------------------- */

enum { WELL, OTHER_DIGESTS, FAILED, LEFT, OTHER_CALLS, NO_SUCH_CALL };

static int on_pool(int64_t pool) {
  kv_digest got[CELLS][3];
  kv_err e = {0};
  open_module(BYTES, (cudart_pool)pool);
  if (replay(&backend, got, &e)) {
    fprintf(stderr, "pool %d: %s\n", (int)pool, e.text);
    return FAILED;
  }
  if (memcmp(got, expected, sizeof got)) return OTHER_DIGESTS;
  if (cudart_held() || cudart_reserved() || cudart_spoilt()) return LEFT;
  bool plain = cudart_calls("cudaMalloc") > 0;
  return plain == (pool != CUDART_POOL) ? WELL : OTHER_CALLS;
}

TEST(test_pools) {
  for (int pool = 0; pool < CUDART_POOLS; pool++)
    assert_int_equal(apart(on_pool, pool), WELL);
}

/* --- a lost device -------------------------------------------------------- */

/* The n-th call of any kind loses the device; what comes later fails, too. */
static int loses(int64_t n) {
  kv_digest got[CELLS][3];
  kv_err e = {0}, later = {0};
  open_module(BYTES, CUDART_POOL);
  cudart_fail(NULL, n, 1, LOST);
  kv_rc rc = replay(&backend, got, &e);
  if (!cudart_failed()) return rc ? FAILED : NO_SUCH_CALL;
  if (cudart_held()) return LEFT;
  if (rc != KV_RESOURCE || !strstr(e.text, "the device was lost: a kernel") ||
      strchr(e.text, '\n') || backend.lacked() ||
      replay(&backend, got, &later) != KV_RESOURCE) {
    fprintf(stderr, "call %d: %d, '%s'\n", (int)n, rc, e.text);
    return FAILED;
  }
  return WELL;
}

TEST(test_lost) {
  int64_t n = 0;
  int got = WELL;
  for (; n < MOST && (got = apart(loses, n)) == WELL; n += step(47))
    ;
  assert_int_equal(got, NO_SUCH_CALL);
  assert_in_range(n, 100, MOST - 1);
}

/* --- no memory ------------------------------------------------------------ */

static int open_here(void **state) {
  (void)state;
  open_module(BYTES, CUDART_POOL);
  return 0;
}

/* In one call of any kind: the second try succeeds. */
TEST_ON(test_once, open_here, NULL) {
  int64_t n = 0;
  char what[64];
  for (;; n += step(13)) {
    cudart_fail(NULL, n, 1, NO_MEMORY);
    snprintf(what, sizeof what, "no memory once, in call %d", (int)n);
    equal(what);
    nothing_left();
    if (!cudart_failed()) break;
    assert_false(backend.lacked());
  }
  assert_in_range(n, 100, MOST - 1);
}

/* And in all later ones: the cells are refused, the next replay goes on. */
static void refused_at(const char *call, int64_t n) {
  kv_digest got[CELLS][3];
  kv_err e = {0};
  char what[96];
  cudart_fail(call, n, MOST, NO_MEMORY);
  kv_rc rc = replay(&backend, got, &e);
  snprintf(what, sizeof what, "no memory from %s %d on", call ? call : "call",
           (int)n);
  nothing_left();
  if (rc != KV_RESOURCE || strchr(e.text, '\n') ||
      !strstr(e.text, "CUDA: out of ") || !strstr(e.text, " unused in "))
    fail_msg("%s: %d, '%s'", what, rc, e.text);
  assert_true(backend.lacked());
  assert_false(backend.lacked());
  cudart_fail(NULL, 0, 0, 0);
  equal(what);
}

TEST(test_ever) {
  cudart_fail(NULL, 0, 0, 0);
  equal("nothing");
  int64_t calls = cudart_calls(NULL);
  assert_in_range(calls, 100, MOST - 1);
  for (int64_t n = 0; n < calls; n += step(23)) refused_at(NULL, n);
}

/* In the first two calls of each function, and in its last. */
TEST(test_each) {
  int64_t calls[WANTS];
  cudart_fail(NULL, 0, 0, 0);
  equal("nothing");
  for (int i = 0; i < WANTS; i++) calls[i] = cudart_calls(wants[i]);
  for (int i = 0; i < WANTS; i++) {
    const int64_t place[] = {0, 1, calls[i] - 1};
    assert_true(calls[i] > 1);
    for (int j = 0; j < 3; j++) {
      cudart_fail(wants[i], place[j], 1, NO_MEMORY);
      equal(wants[i]);
      assert_true(cudart_failed());
      nothing_left();
      refused_at(wants[i], place[j]);
    }
  }
}

/* A start is named by what it is for: the first one sets the clock. */
TEST(test_named) {
  kv_digest got[CELLS][3];
  kv_err e = {0};
  cudart_fail("a kernel", 0, MOST, NO_MEMORY);
  assert_int_equal(replay(&backend, got, &e), KV_RESOURCE);
  if (!strstr(e.text, ", starting a step's clock: "))
    fail_msg("it says: %s", e.text);
  assert_true(backend.lacked());
}

/* --- what the pool keeps -------------------------------------------------- */

TEST(test_keeps) {
  enum { PIECE = 3 * BYTES / 4 };
  char lie[64];
  cudart_fail(NULL, 0, 0, 0);
  void *p = device->take(PIECE);
  assert_non_null(p);
  device->give(p);
  assert_int_equal(cudart_reserved(), PIECE);
  p = device->take(PIECE + 1); /* has no room beside what is kept */
  assert_non_null(p);
  void *q = device->take(1);
  assert_non_null(q);
  assert_null(device->take(PIECE));
  snprintf(lie, sizeof lie, "plus %d unused in", 2 * CUDART_GRAIN - 2);
  if (!strstr(device->why_none(), lie))
    fail_msg("'%s' is not in '%s'", lie, device->why_none());
  assert_null(device->failed());
  device->give(p);
  device->give(q);
  device->ended(0);
  nothing_left();
}

/* --- commands ------------------------------------------------------------- */

static size_t rows_of(const char *key, const char *value) {
  size_t n = 0, i;
  json_t *j = json_loads(heard, 0, NULL), *row;
  if (!j) fail_msg("this is no JSON: %s", heard);
  json_array_foreach(j, i, row) {
    const char *is = json_string_value(json_object_get(row, key));
    n += is && !strcmp(is, value);
  }
  json_decref(j);
  return n;
}

/* The first of two traces finds no memory, the second one is compared. */
TEST(test_check) {
  const char *const words[] = {"check",      "-q",       trace, again, "-m",
                               "h2o,window", "-b",       "8",   "-f",  "json",
                               "-B",         "ref,cuda", NULL};
  cudart_fail("cudaGraphInstantiateWithFlags", 0, 2, NO_MEMORY);
  assert_int_equal(command_call(kv_commands_call, words), KV_RESOURCE);
  if (!strstr(said, "CUDA: out of device memory, recording"))
    fail_msg("it says: %s", said);
  assert_int_equal(rows_of("outcome", "failed"), 2);
  assert_int_equal(rows_of("outcome", "equal"), 2);
  nothing_left();
}

TEST(test_run) {
  const char *const words[] = {"run",        "-q",   trace, again, "-m",
                               "h2o,window", "-b",   "8",   "-f",  "json",
                               "-B",         "cuda", NULL};
  cudart_fail("cudaGraphLaunch", 3, 2, NO_MEMORY);
  assert_int_equal(command_call(kv_commands_call, words), KV_RESOURCE);
  if (!strstr(said, "CUDA: out of device memory, starting recorded kernels"))
    fail_msg("it says: %s", said);
  assert_int_equal(rows_of("status", "failed"), 2);
  assert_int_equal(rows_of("status", "ok"), 2);
  nothing_left();
}

/* --- the tests ------------------------------------------------------------ */

static void make_trace(char *path, const char *name, uint64_t seed) {
  const kv_small t = {"runtime", LAYERS, 4, 2, 8, KV_F32, TOKENS, PROMPT};
  kv_err e = {0};
  snprintf(path, 512, "%s", scratch_path(name));
  if (kv_small_write(&t, seed, path, &e)) fail_msg("%s", e.text);
}

static int setup(void **state) {
  kv_err e = {0};
  if (scratch_make(state) || unsetenv("KVREPLAY_ISA")) return 1;
  make_trace(trace, "one.safetensors", 3);
  make_trace(again, "two.safetensors", 4);
  return replay(&kv_backend_ref, expected, &e) != KV_OK;
}

int main(void) { return tests_run("gpu_runtime", setup, scratch_remove); }
