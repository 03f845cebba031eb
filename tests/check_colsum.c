/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded column sums: a trace whose prompt rows are not all recorded gives
 * a method that needs sums the same decisions as the whole trace, and refuses
 * one that needs the rows, naming them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ref/arith.h"
#include "sim/replay.h"
#include "tests/scratch.h"
#include "traces/writer.h"

enum { HEADS = 4, KV = 2, D = 16, T = 60, P = 40, LAST = 8 };
enum { ROWS = T - P + LAST }; /* the last prompt rows and all decode rows */

static float q[HEADS][T][D], k[KV][T][D], v[KV][T][D];
static float few[HEADS][ROWS][D];
static int64_t sums[HEADS][P];
static int32_t rows[ROWS];

static float next(void) {
  static uint64_t x = 7;
  x = x * 6364136223846793005u + 1442695040888963407u;
  return ((float)(x >> 40) - 0x1p23f) * 0x1p-22f;
}

static void fill(void) {
  for (int t = 0; t < T; t++)
    for (int i = 0; i < D; i++) {
      for (int h = 0; h < HEADS; h++) q[h][t][i] = next();
      for (int g = 0; g < KV; g++) k[g][t][i] = next();
      for (int g = 0; g < KV; g++) v[g][t][i] = next();
    }
  for (int r = 0; r < ROWS; r++) {
    rows[r] = P - LAST + r;
    for (int h = 0; h < HEADS; h++)
      memcpy(few[h][r], q[h][rows[r]], sizeof few[h][r]);
  }
}

/* Arithmetic 1 and 4 by plain loops. */
static void sum_columns(void) {
  for (int h = 0; h < HEADS; h++)
    for (int t = 0; t < P; t++) {
      float s[P], top = -INFINITY;
      int64_t mass = 0;
      for (int j = 0; j <= t; j++) {
        float a = 0;
        for (int i = 0; i < D; i++)
          a = kv_fma(q[h][t][i], k[h / (HEADS / KV)][j][i], a);
        s[j] = a * 0.25f + 0.0f;
        top = s[j] > top ? s[j] : top;
      }
      for (int j = 0; j <= t; j++) mass += kv_fix(kv_expm(s[j] - top));
      float r = 1.0f / kv_unfix(mass);
      for (int j = 0; j <= t; j++)
        sums[h][j] += kv_fix(kv_expm(s[j] - top) * r);
    }
}

static void declare(kv_st_writer *w, const char *name, kv_st_dtype type,
                    int rank, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t shape[3] = {a, b, c};
  assert_int_equal(kv_st_writer_declare(w, name, type, rank, shape, NULL), 0);
}

static void write_trace(const char *path, bool whole) {
  static const char *const meta[][2] = {
      {"format", "kvtrace"}, {"version", "1"},       {"model", "test"},
      {"n_layers", "1"},     {"n_heads", "4"},       {"n_kv_heads", "2"},
      {"head_dim", "16"},    {"layers", "all"},      {"attn.scale", "0.25"},
      {"prompt_len", "40"},  {"rope.layout", "half"}};
  kv_st_writer *w;
  assert_int_equal(kv_st_writer_open(path, 0, &w, NULL), KV_OK);
  declare(w, "layers.0.q", KV_ST_F32, 3, HEADS, whole ? T : ROWS, D);
  declare(w, "layers.0.k", KV_ST_F32, 3, KV, T, D);
  declare(w, "layers.0.v", KV_ST_F32, 3, KV, T, D);
  if (!whole) declare(w, "layers.0.rows", KV_ST_I32, 1, ROWS, 0, 0);
  if (!whole) declare(w, "layers.0.colsum", KV_ST_I64, 2, HEADS, P, 0);
  for (size_t i = 0; i < sizeof meta / sizeof *meta; i++)
    kv_st_writer_meta(w, meta[i][0], meta[i][1], NULL);
  kv_st_writer_append(w, whole ? sizeof q : sizeof few, whole ? q[0] : few[0],
                      NULL);
  kv_st_writer_append(w, sizeof k, k, NULL);
  kv_st_writer_append(w, sizeof v, v, NULL);
  if (!whole) kv_st_writer_append(w, sizeof rows, rows, NULL);
  if (!whole) kv_st_writer_append(w, sizeof sums, sums, NULL);
  assert_int_equal(kv_st_writer_finish(w, NULL, NULL), KV_OK);
  kv_st_writer_close(w);
}

/* Replays one specification; the digest of what it decided, or its reason. */
static kv_status decide(const char *path, const char *text, kv_digest *journal,
                        char *why) {
  kv_trace *t;
  kv_spec spec;
  kv_cell cell, *each = &cell;
  kv_err e = {0};
  bool stopped;
  if (kv_trace_open(path, &t, &e)) fail_msg("%s", e.text);
  assert_int_equal(kv_spec_parse(kv_method_at, text, &spec, &e), KV_OK);
  kv_asked_cell asked = {&spec, NULL, -1};
  kv_replay_how how = {.backend = &kv_backend_ref,
                       .kernels = kv_kernels_best(),
                       .threads = 1,
                       .fidelity = true};
  assert_int_equal(kv_cell_open(t, 0, how.kernels, &asked, &cell, &e), KV_OK);
  if (kv_replay(t, &each, 1, &how, &stopped, &e)) fail_msg("%s", e.text);
  kv_status status = cell.result.status;
  *journal = cell.result.journal;
  snprintf(why, 512, "%s", cell.result.reason);
  kv_cell_close(&cell);
  kv_spec_free(&spec);
  kv_trace_close(t);
  return status;
}

static void same_decisions(void **state) {
  static const char *const spec[] = {"h2o:budget=16", "snapkv:budget=16",
                                     "h2o:budget=16:variant=prefill"};
  const char *whole = scratch_path("whole.safetensors");
  const char *part = scratch_path("part.safetensors");
  char why[512];
  (void)state;
  fill();
  sum_columns();
  write_trace(whole, true);
  write_trace(part, false);
  for (int i = 0; i < 3; i++) {
    kv_digest a, b;
    assert_int_equal(decide(whole, spec[i], &a, why), KV_CELL_OK);
    assert_int_equal(decide(part, spec[i], &b, why), KV_CELL_OK);
    if (memcmp(&a, &b, sizeof a)) fail_msg("%s decides otherwise", spec[i]);
  }
  kv_digest none;
  assert_int_equal(decide(part, "zsmerge:budget=16", &none, why),
                   KV_CELL_REFUSED);
  assert_non_null(strstr(why, "zsmerge needs the last 40 query rows"));
  assert_non_null(strstr(why, "layer 0 records 8"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_decisions)};
  return cmocka_run_group_tests_name("recorded column sums", tests,
                                     scratch_make, scratch_remove);
}
