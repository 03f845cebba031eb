/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded column sums: a trace whose prompt rows are not all recorded gives
 * a method that needs sums the same decisions as the whole trace, and refuses
 * one that needs the rows, naming them. Recomputed, they are those of plain
 * loops; a check names the first that is not.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/ground/arith.h"
#include "sim/replay/engine/replay.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "traces/container/writer.h"
#include "traces/trace/check.h"
#include "traces/trace/colsum.h"
#include "traces/trace/convert.h"

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

/* whole: with every row; sums: with column sums. */
static void write_trace(const char *path, bool whole, bool with) {
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
  if (with) declare(w, "layers.0.colsum", KV_ST_I64, 2, HEADS, P, 0);
  for (size_t i = 0; i < sizeof meta / sizeof *meta; i++)
    kv_st_writer_meta(w, meta[i][0], meta[i][1], NULL);
  kv_st_writer_append(w, whole ? sizeof q : sizeof few, whole ? q[0] : few[0],
                      NULL);
  kv_st_writer_append(w, sizeof k, k, NULL);
  kv_st_writer_append(w, sizeof v, v, NULL);
  if (!whole) kv_st_writer_append(w, sizeof rows, rows, NULL);
  if (with) kv_st_writer_append(w, sizeof sums, sums, NULL);
  assert_int_equal(kv_st_writer_finish(w, NULL, NULL), KV_OK);
  kv_st_writer_close(w);
}

/* Replays one specification, at a list of one budget where that is not 0; the
 * digest of what it decided, or its reason. */
static kv_status decide_at(int budget, const char *path, const char *text,
                           kv_digest *journal, char *why) {
  kv_trace *t;
  kv_spec spec;
  kv_cell cell, *each = &cell;
  kv_err e = {0};
  bool stopped;
  if (kv_trace_open(path, &t, &e)) fail_msg("%s", e.text);
  assert_int_equal(kv_spec_parse(kv_method_at, text, &spec, &e), KV_OK);
  if (budget) assert_int_equal(kv_spec_set_list(&spec, 1, &budget, &e), KV_OK);
  kv_asked_cell asked = {.spec = &spec, .entries = -1};
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

static kv_status decide(const char *path, const char *text, kv_digest *journal,
                        char *why) {
  return decide_at(0, path, text, journal, why);
}

TEST(same_decisions) {
  static const char *const spec[] = {"h2o:budget=16", "snapkv:budget=16",
                                     "h2o:budget=16:variant=prefill"};
  const char *whole = scratch_path("whole.safetensors");
  const char *part = scratch_path("part.safetensors");
  char why[512];
  fill();
  sum_columns();
  write_trace(whole, true, false);
  write_trace(part, false, true);
  for (int i = 0; i < 3; i++) {
    kv_digest a, b;
    assert_int_equal(decide(whole, spec[i], &a, why), KV_CELL_OK);
    assert_int_equal(decide(part, spec[i], &b, why), KV_CELL_OK);
    if (memcmp(&a, &b, sizeof a)) fail_msg("%s decides otherwise", spec[i]);
  }
  kv_digest none, a, b;
  assert_int_equal(decide(part, "h2o:budget=16", &a, why), KV_CELL_OK);
  assert_int_equal(decide_at(16, part, "h2o", &b, why), KV_CELL_OK);
  assert_memory_equal(&a, &b, sizeof a);
  assert_int_equal(decide(part, "zsmerge:budget=16", &none, why),
                   KV_CELL_REFUSED);
  assert_non_null(strstr(why, "zsmerge needs the last 40 query rows"));
  assert_non_null(strstr(why, "layer 0 records 8"));
}

/* --- recomputed --------------------------------------------------------- */

/* What a check says of the sums as they are, of a trace with every row or
 * without. */
static kv_check_sums checked(bool whole) {
  const char *path = scratch_path("sums.safetensors");
  kv_check_sums found;
  kv_trace *t;
  kv_err e = {0};
  write_trace(path, whole, true);
  if (kv_trace_open(path, &t, &e) ||
      kv_check_sums_layer(t, 0, kv_kernels_best(), &found, &e))
    fail_msg("%s", e.text);
  kv_trace_close(t);
  assert_true(found.recorded && found.recomputed == whole);
  return found;
}

/* By every kernel set, to the bit what plain loops give. */
TEST(sums_are_recomputed) {
  static const char *const sets[] = {"portable", "avx2", "avx512"};
  static int64_t again[HEADS][P];
  const char *path = scratch_path("whole.safetensors");
  kv_trace *t;
  write_trace(path, true, false);
  assert_int_equal(kv_trace_open(path, &t, NULL), KV_OK);
  assert_true(kv_colsum_can(t, 0));
  for (int i = 0; i < 3; i++) {
    const kv_kernels *kernel;
    assert_int_equal(kv_kernels_named(sets[i], &kernel, NULL, NULL), KV_OK);
    assert_int_equal(
        kv_colsum(&t->shape, &t->layer[0].data, kernel, again[0], NULL), KV_OK);
    assert_memory_equal(again, sums, sizeof sums);
  }
  kv_trace_close(t);
}

TEST(differing_sums_are_named) {
  assert_int_equal(checked(true).different, 0);
  assert_int_equal(checked(false).different, 0);
  int64_t was = sums[2][7];
  sums[2][7] += was / 1000 + (KV_COLSUM_ONE >> 12); /* above 1e-4 of each */
  kv_check_sums s = checked(true);
  assert_true(s.different == 1 && s.head == 2 && s.column == 7);
  assert_true(s.ours == (double)was && s.theirs == (double)sums[2][7]);
  assert_int_equal(checked(false).different, 0); /* it is a small part of all */
  sums[2][7] = was + KV_COLSUM_ONE;
  s = checked(false);
  assert_true(s.different == 1 && s.head == 2 && s.column == -1);
  sums[2][7] = was;
}

/* --- converted ---------------------------------------------------------- */

static kv_trace *converted(bool whole, kv_convert *c) {
  const char *to = scratch_path("half.safetensors");
  kv_trace *t;
  kv_err e = {0};
  write_trace(scratch_path("sums.safetensors"), whole, true);
  if (kv_trace_open(scratch_path("sums.safetensors"), &t, &e))
    fail_msg("%s", e.text);
  *c = (kv_convert){.from = t, .dtype = KV_BF16};
  if (kv_convert_write(c, kv_kernels_best(), to, &e)) fail_msg("%s", e.text);
  kv_trace_close(t);
  if (kv_trace_open(to, &t, &e)) fail_msg("%s", e.text);
  return t;
}

/* In another type the sums are those of the rounded numbers, or are gone. */
TEST(converted_sums_are_true) {
  static int64_t again[HEADS][P];
  kv_convert c;
  kv_trace *t = converted(true, &c);
  const kv_layer_data *data = &t->layer[0].data;
  assert_true(c.changed > 0 && c.sums_again == 1 && c.sums_left_out == 0);
  assert_non_null(data->colsum);
  assert_int_equal(
      kv_colsum(&t->shape, data, kv_kernels_best(), again[0], NULL), KV_OK);
  assert_memory_equal(data->colsum, again, sizeof again);
  assert_memory_not_equal(again, sums, sizeof again);
  kv_trace_close(t);
  t = converted(false, &c);
  assert_true(c.sums_again == 0 && c.sums_left_out == 1);
  assert_null(t->layer[0].data.colsum);
  assert_int_equal(t->layer[0].data.n_rows, ROWS);
  kv_trace_close(t);
}

int main(void) {
  return tests_run("recorded column sums", scratch_make, scratch_remove);
}
