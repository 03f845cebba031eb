/* SPDX-License-Identifier: Apache-2.0
 *
 * Assets: the file of a method is found by name or beside its trace, every
 * wrong one is a sentence, both backends and every budget of time see the same
 * numbers, and its bytes are part of the row's code. The method is that of
 * tests/made/counts.h.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/host/backends.h"
#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "sim/ask/door.h"
#include "sim/replay/engine/replay.h"
#include "sim/run/session/session_part.h"
#include "tests/laws/cells.h"
#include "tests/made/counts.h"
#include "tests/support/backend/probe.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/tracefile.h"
#include "traces/container/writer.h"

static const meta model = {"model", "some/Model 1"};
static kv_trace *trace;

static const kv_method *only_counts(int i) {
  return i == 0 ? &counts_method : NULL;
}

/* --- files -------------------------------------------------------------- */

typedef struct tensor {
  const char *name;
  kv_st_dtype type;
  int rank;
  uint64_t shape[2];
  const void *data;
} tensor;

enum { TENSORS = 4 };
static const int32_t keep[LAYERS][KV] = {{2, 4}, {3, 1}};
static const int64_t more[] = {7, 7};
static uint16_t half[LAYERS][KV]; /* share, as F16 */

/* The right ones; layer 1 has `more`, layer 0 has not. */
static void right(tensor out[TENSORS]) {
  const tensor all[TENSORS] = {{"layers.0.keep", KV_ST_I32, 1, {KV}, keep[0]},
                               {"layers.1.keep", KV_ST_I32, 1, {KV}, keep[1]},
                               {"layers.1.more", KV_ST_I64, 1, {2}, more},
                               {"share", KV_ST_F16, 2, {LAYERS, KV}, half}};
  memcpy(out, all, sizeof all);
}

static uint64_t count(const tensor *t) {
  return t->rank == 2 ? t->shape[0] * t->shape[1] : t->shape[0];
}

static void write_file(const char *path, const tensor t[TENSORS],
                       const char *format, const char *identity) {
  kv_st_writer *w;
  assert_int_equal(kv_st_writer_open(path, 0, &w, NULL), KV_OK);
  for (int i = 0; i < TENSORS; i++)
    if (t[i].name)
      kv_st_writer_declare(w, t[i].name, t[i].type, t[i].rank, t[i].shape,
                           NULL);
  kv_st_writer_meta(w, "format", format, NULL);
  if (identity) kv_st_writer_meta(w, "trace", identity, NULL);
  for (int i = 0; i < TENSORS; i++)
    if (t[i].name)
      kv_st_writer_append(w, count(&t[i]) * kv_st_dtype_bits(t[i].type) / 8,
                          t[i].data, NULL);
  assert_int_equal(kv_st_writer_finish(w, NULL, NULL), KV_OK);
  kv_st_writer_close(w);
}

static void write_right(const char *path) {
  tensor t[TENSORS];
  right(t);
  write_file(path, t, "kvcounts", NULL);
}

static const char *beside(void) {
  return scratch_path("assets/counts.some_Model_1.safetensors");
}

/* --- cells -------------------------------------------------------------- */

/* The cell of "counts", of this file or (NULL) of the one beside; replayed
 * where it runs. */
static void run(const char *path, const kv_backend *backend, kv_cell *cell) {
  char text[1300];
  snprintf(text, sizeof text, "counts%s%s", path ? ":file=" : "",
           path ? path : "");
  const kv_replay_how how = {.backend = backend, .threads = 1};
  cells_ask(only_counts, trace, 0, text, -1, cell);
  if (cell->runs) cells_replay(trace, 1, &cell, how);
}

static void is_refused(const char *path, const char *word) {
  kv_cell cell;
  run(path, &kv_backend_ref, &cell);
  if (cell.result.status != KV_CELL_REFUSED ||
      !strstr(cell.result.reason, word) || strchr(cell.result.reason, '\n'))
    fail_msg("\"%s\", not \"%s\"", cell.result.reason, word);
  kv_cell_close(&cell);
}

static int start(void **state) {
  const float share[LAYERS][KV] = {{0, 0.5f}, {0.25f, 1}};
  scratch_make(state);
  for (int i = 0; i < LAYERS * KV; i++)
    half[i / KV][i % KV] = kv_to_f16(share[i / KV][i % KV]);
  tracefile_write(&model, 0, NULL, 0);
  trace = tracefile_open();
  mkdir(scratch_path("assets"), 0777);
  return 0;
}

static int stop(void **state) {
  kv_trace_close(trace);
  unlink(beside());
  rmdir(scratch_path("assets"));
  return scratch_remove(state);
}

/* --- what is right ------------------------------------------------------ */

/* By hand: layer 0 keeps 2 + 0 and 4 + 1, layer 1 3 + 0 + 2 and 1 + 1 + 2. */
TEST(lanes_hold_what_it_says) {
  kv_cell cell;
  write_right(beside());
  run(NULL, &kv_backend_ref, &cell);
  assert_string_equal(cell.result.reason, "");
  assert_true(cell.result.totals.kept == (2 + 5 + 5 + 4) / 4.0);
  assert_string_equal(cell.result.spec, "counts");
  assert_string_equal(cell.result.params,
                      "{\"file\": \"counts.some_Model_1.safetensors\"}");
  assert_int_equal(cell.asset->bytes, 4 * (2 + 2 + 4) + 8 * 2);
  assert_int_equal(cell.result.totals.asset, cell.asset->bytes);
  kv_cell_close(&cell);
}

TEST(named_and_beside_are_one) {
  kv_cell a, b, c;
  const char *path = scratch_path("my+file.safetensors");
  char text[700];
  write_right(beside());
  write_right(path);
  snprintf(text, sizeof text, "%s", scratch_path("my\\+file.safetensors"));
  run(NULL, &kv_backend_ref, &a);
  run(text, &kv_backend_ref, &b);
  assert_string_equal(b.result.reason, "");
  assert_string_equal(a.result.code, b.result.code);
  assert_non_null(strstr(b.result.spec, "my\\+file"));
  assert_string_equal(b.result.params, "{\"file\": \"my+file.safetensors\"}");
  assert_true(same_digest(a.result.journal, b.result.journal));
  tensor t[TENSORS];
  right(t);
  t[2].name = NULL; /* optional */
  write_file(path, t, "kvcounts", NULL);
  run(text, &kv_backend_ref, &c);
  assert_string_not_equal(a.result.code, c.result.code);
  assert_false(same_digest(a.result.journal, c.result.journal));
  kv_cell_close(&a);
  kv_cell_close(&b);
  kv_cell_close(&c);
}

/* counts as a format, which codes nothing. */
static kv_rc open_format(const kv_shape *shape, void *p, kv_needs *needs,
                         kv_err *e) {
  static const kv_minmax how = {.bits = 8, .group = 1};
  needs->codings = 1;
  needs->coding[0] = (kv_coding){.format = &kv_format_token, .settings = &how};
  return counts_method.open(shape, p, needs, e);
}

static const kv_method *two_counts(int i) {
  static kv_method format_of_counts;
  format_of_counts = counts_method;
  format_of_counts.name = "format";
  format_of_counts.open = open_format;
  return i == 0 ? &counts_method : i == 1 ? &format_of_counts : NULL;
}

/* The second reads its own tensors: one entry a lane, of head 1 one more. */
TEST(two_methods_read_two_files) {
  static const int32_t one[KV] = {1, 1};
  const kv_replay_how how = {.backend = &kv_backend_ref, .threads = 1};
  char first[512], text[1300];
  tensor t[TENSORS];
  kv_cell cell, alone, *both = &cell;
  snprintf(first, sizeof first, "%s", scratch_path("a.safetensors"));
  write_right(first);
  right(t);
  t[0].data = t[1].data = one, t[2].name = NULL;
  write_file(scratch_path("b.safetensors"), t, "kvcounts", NULL);
  snprintf(text, sizeof text, "counts:file=%s+format:file=%s", first,
           scratch_path("b.safetensors"));
  cells_ask(two_counts, trace, 0, text, -1, &cell);
  assert_string_equal(cell.result.reason, "");
  cells_replay(trace, 1, &both, how);
  assert_true(cell.result.totals.kept == (1 + 2 + 1 + 2) / 4.0);
  run(first, &kv_backend_ref, &alone);
  assert_string_not_equal(cell.result.code, alone.result.code);
  assert_int_equal(cell.asset->bytes, 2 * alone.asset->bytes - 8 * 2);
  kv_cell_close(&alone);
  kv_cell_close(&cell);
}

TEST(backends_agree) {
  kv_cell a, b;
  if (!probe_backend()) skip();
  write_right(beside());
  run(NULL, &kv_backend_ref, &a);
  run(NULL, probe_backend(), &b);
  assert_string_equal(b.result.reason, "");
  assert_true(same_digest(a.result.journal, b.result.journal));
  assert_true(same_digest(a.result.state, b.result.state));
  assert_true(same_digest(a.result.output, b.result.output));
  kv_cell_close(&a);
  kv_cell_close(&b);
}

/* With a default it is one of all methods, without one it is not. */
TEST(in_all) {
  kv_specs all = {0};
  works(kv_specs_add(only_counts, "all", &all, &told));
  assert_int_equal(all.n, 1);
  assert_ptr_equal(all.spec[0].method, &counts_method);
  assert_string_equal(kv_spec_file(&all.spec[0], 0)->path, "");
  kv_specs_free(&all);
  for (int i = 0; kv_method_at(i); i++) {
    const kv_param *p = kv_method_file(kv_method_at(i), 0);
    assert_true(!p || p->fallback);
  }
}

/* --- what is not -------------------------------------------------------- */

TEST(missing_file) {
  char want[700];
  unlink(beside());
  snprintf(want, sizeof want, "there is no %s", beside());
  is_refused(NULL, want);
  is_refused(scratch_path("nowhere.safetensors"), "nowhere.safetensors");
}

TEST(wrong_tensors) {
  static const float wide[LAYERS * KV * 2] = {0};
  static const uint16_t inf[LAYERS * KV] = {0, 0, 0x7c00, 0};
  static const int32_t zero[KV] = {1, 0};
  static const struct {
    int at;
    tensor t;
    const char *word;
  } all[] = {
      {1,
       {NULL, KV_ST_I32, 0, {0}, NULL},
       "layers.1.keep is missing, and every"},
      {3, {NULL, KV_ST_I32, 0, {0}, NULL}, "tensor share is missing"},
      {1, {"layers.1.keep", KV_ST_I64, 1, {KV}, wide}, "I64; it must be I32"},
      {3, {"share", KV_ST_F64, 2, {2, 2}, wide}, "F32, F16 or BF16"},
      {0, {"layers.0.keep", KV_ST_I32, 1, {3}, wide}, "[3]; it must have [2]"},
      {3, {"share", KV_ST_F32, 1, {4}, wide}, "[4]; it must have [2, 2]"},
      {3, {"share", KV_ST_F16, 2, {2, 2}, inf}, "NaN or Inf at [1, 0]"},
      {0, {"layers.0.keep", KV_ST_I32, 1, {KV}, zero}, "KV head 1 of layer 0"}};
  const char *path = scratch_path("w.safetensors");
  tensor t[TENSORS];
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    right(t);
    t[all[i].at] = all[i].t;
    write_file(path, t, "kvcounts", NULL);
    is_refused(path, all[i].word);
  }
  right(t);
  write_file(path, t, "kvother", NULL);
  is_refused(path, "format is kvother; write kvcounts");
  write_right(path);
  assert_int_equal(truncate(path, 200), 0);
  is_refused(path, "w.safetensors");
  write_file(
      path, t, "kvcounts",
      "0123456789012345678901234567890123456789012345678901234567890123");
  is_refused(path, "belongs to another trace");
}

typedef struct toucher {
  char path[600];
  atomic_bool quit;
} toucher;

/* Gives the file another time of change, again and again. */
static void *touch(void *self) {
  toucher *x = self;
  struct timespec t[2] = {{1, 0}, {1, 0}};
  while (!atomic_load(&x->quit)) {
    t[1].tv_nsec = (t[1].tv_nsec + 1) % 1000000000;
    utimensat(AT_FDCWD, x->path, t, 0);
  }
  return NULL;
}

/* Rewritten while it is read: nobody knows what was read. */
TEST(rewritten) {
  toucher x = {.quit = false};
  pthread_t who;
  bool refused = false;
  kv_cell cell;
  snprintf(x.path, sizeof x.path, "%s", scratch_path("touched.safetensors"));
  write_right(x.path);
  assert_int_equal(pthread_create(&who, NULL, touch, &x), 0);
  for (int i = 0; i < 20000 && !refused; i++) {
    run(x.path, &kv_backend_ref, &cell);
    refused = cell.result.status == KV_CELL_REFUSED &&
              strstr(cell.result.reason, "was rewritten while it was read");
    kv_cell_close(&cell);
  }
  atomic_store(&x.quit, true);
  pthread_join(who, NULL);
  assert_true(refused);
}

/* A session has no folder to look into; a file that is named serves it. */
TEST(sessions_read_it) {
  char text[800];
  kv_session *s = NULL;
  kv_spec spec;
  kv_session_shape shape = {.abi = KV_SESSION_ABI,
                            .n_layers = LAYERS,
                            .n_heads = HEADS,
                            .n_kv_heads = KV,
                            .d = DIM,
                            .d_v = DIM,
                            .n_tokens = TOKENS,
                            .dtype = KV_F32};
  works(kv_spec_parse(only_counts, "counts", &spec, &told));
  fails(kv_session_open_spec(&shape, &spec, NULL, PROMPT, NULL, &s, &told),
        KV_REFUSED, "a session has no trace; name the file");
  kv_spec_free(&spec);
  const char *path = scratch_path("s.safetensors");
  write_right(path);
  snprintf(text, sizeof text, "counts:file=%s", path);
  works(kv_spec_parse(only_counts, text, &spec, &told));
  works(kv_session_open_spec(&shape, &spec, NULL, PROMPT, NULL, &s, &told));
  kv_session_close(s);
  kv_spec_free(&spec);
}

/* The table of a plugin that reads a file. */
TEST(tables_are_checked) {
  kv_method m = counts_method;
  const kv_param *row = counts_method.params;
  kv_param p[4] = {row[0], row[0], row[0], {0}};
  works(kv_door_check(&m, "x", &told));
  m.params = p;
  p[1].name = "other";
  p[2].name = "third";
  fails(kv_door_check(&m, "x", &told), KV_INPUT, "the most files");
  p[1].name = NULL;
  p[0].fallback = "mine";
  fails(kv_door_check(&m, "x", &told), KV_INPUT, "default KV_FILE_BESIDE");
  p[0].fallback = NULL;
  p[0].reads = NULL;
  fails(kv_door_check(&m, "x", &told), KV_INPUT, "declares no tensor");
}

int main(void) { return tests_run("assets", start, stop); }
