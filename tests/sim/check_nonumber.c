/* SPDX-License-Identifier: Apache-2.0
 *
 * What is no number is never right: NaN is neither above a tolerance nor below
 * it, an infinity tolerates any difference that is a share of it, and a maximum
 * passes over a NaN, or forgets one. Of who recomputes a trace, and of who
 * grades outputs.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/run/grade/outputs.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/tracefile.h"
#include "traces/container/writer.h"
#include "traces/trace/check.h"

#define F KV_ST_F32
enum { STEPS = TOKENS - PROMPT };

/* A NaN once met stays, in either place, before and behind numbers. */
TEST(worse_is_worst) {
  assert_true(kv_check_worse(1, 2) == 2 && kv_check_worse(2, 1) == 2);
  assert_true(kv_check_worse(2, INFINITY) == INFINITY);
  assert_true(isnan(kv_check_worse(NAN, 1)) && isnan(kv_check_worse(1, NAN)));
  assert_true(isnan(kv_check_worse(INFINITY, NAN)));
  assert_true(kv_check_relative(0, 0) == 0 && kv_check_relative(4, 1) == 2);
  assert_true(kv_check_relative(1, 0) == INFINITY);
  assert_true(isnan(kv_check_relative(NAN, 1)));
  assert_true(isnan(kv_check_relative(INFINITY, INFINITY)));
}

static float wide[HEADS * TOKENS * DIM], zero[HEADS * TOKENS * DIM];

/* Layer 1 holds `q` and `k`; its recorded output is 0. */
static kv_trace *trace_of(float q, float k) {
  static float queries[HEADS * TOKENS * DIM];
  for (int i = 0; i < HEADS * TOKENS * DIM; i++) queries[i] = q;
  for (int i = 0; i < KV * TOKENS * DIM; i++) wide[i] = k;
  const field f[4] = {{"layers.1.q", F, 3, {HEADS, TOKENS, DIM}, queries},
                      {"layers.1.k", F, 3, {KV, TOKENS, DIM}, wide},
                      {"layers.1.o", F, 3, {HEADS, TOKENS, DIM}, zero},
                      {"layers.0.o", F, 3, {HEADS, TOKENS, DIM}, zero}};
  tracefile_write(NULL, 4, f, 0);
  return tracefile_open();
}

/* Every number of the file is finite; its logits are not. */
TEST(a_logit_beyond_binary32) {
  kv_trace *t = trace_of(1e25f, 1e25f);
  kv_check c;
  kv_second second;
  assert_int_equal(kv_check_layer(t, 1, kv_kernels_best(), &c, NULL), KV_OK);
  assert_true(c.has_o && isnan(c.error) && isnan(c.relative));
  assert_int_equal(kv_second_layer(t, 1, kv_kernels_best(), &second, NULL),
                   KV_OK);
  assert_true(!second.by || (isnan(second.error) && isnan(second.relative)));
  kv_trace_close(t);
}

/* --- outputs ------------------------------------------------------------- */

/* Their file: `x` everywhere, an LSE of 1 a row. */
static void put_outputs(const char *to, float x) {
  static float all[HEADS * STEPS * DIM], one[HEADS * STEPS];
  const uint64_t o[3] = {HEADS, STEPS, DIM};
  kv_st_writer *w = NULL;
  kv_err e = {0};
  char name[64];
  for (int i = 0; i < HEADS * STEPS * DIM; i++) all[i] = x;
  for (int i = 0; i < HEADS * STEPS; i++) one[i] = 1;
  kv_rc rc = kv_st_writer_open(to, 0, &w, &e);
  for (int i = 0; !rc && i < 2 * LAYERS; i++) {
    snprintf(name, sizeof name, "layers.%d.%s", i / 2, i % 2 ? "lse" : "o");
    rc = kv_st_writer_declare(w, name, F, i % 2 ? 2 : 3, o, &e);
  }
  for (int i = 0; !rc && i < 2 * LAYERS; i++)
    rc = kv_st_writer_append(w, i % 2 ? sizeof one : sizeof all,
                             i % 2 ? (const void *)one : all, &e);
  if (!rc) rc = kv_st_writer_finish(w, NULL, &e);
  if (rc) fail_msg("%s", e.text);
  kv_st_writer_close(w);
}

/* A row whose element 2 is ours[0] and whose LSE is ours[1], the others as
 * theirs, in a layer of two rows; ulp: elements in the last bucket. */
static void grade_row(float theirs, const float ours[2], int wrong, int ulp) {
  const kv_outputs_how how = {.atol = -1, .rtol = .1};
  kv_trace *t = trace_of(1, 1);
  kv_outputs *o = NULL;
  kv_err e = {0};
  float row[DIM];
  char path[600];
  snprintf(path, sizeof path, "%s", scratch_path("out.safetensors"));
  put_outputs(path, theirs);
  if (kv_outputs_open(path, t, PROMPT, &how, &o, &e)) fail_msg("%s", e.text);
  for (int x = 0; x < DIM; x++) row[x] = isfinite(theirs) ? theirs : 1;
  row[2] = ours[0];
  kv_outputs_row(o, 1, PROMPT + 1, 0, row, ours[1]);
  row[2] = row[1];
  kv_outputs_row(o, 1, PROMPT + 1, 1, row, 1);
  const kv_output_sums *s = kv_outputs_layer(o, 1);
  assert_int_equal(s->wrong, wrong);
  assert_int_equal(s->ulp[KV_ULP_BUCKETS - 1], ulp);
  assert_int_equal(s->matched, 2 * DIM - ulp);
  assert_int_equal(s->lse_matched, 1 + isfinite(ours[1]));
  assert_int_equal(isinf(kv_output_relative(s)), ulp > 0);
  assert_int_equal(isinf(s->most), ulp > 0);
  assert_int_equal(isinf(s->lse_most), !isfinite(ours[1]));
  kv_output_sums all = {0};
  kv_output_add(s, &all);
  assert_int_equal(isinf(kv_output_relative(&all)), ulp > 0);
  kv_outputs_close(o);
  kv_trace_close(t);
}

TEST(ours_is_no_number) {
  static const float no[3] = {NAN, INFINITY, -INFINITY};
  grade_row(1, (float[]){1, 1}, 0, 0);
  for (int i = 0; i < 3; i++) {
    grade_row(1, (float[]){no[i], 1}, 1, 1);
    grade_row(1, (float[]){1, no[i]}, 1, 0);
    /* All of theirs, one of them as ours is: nothing says that it is right. */
    grade_row(no[i], (float[]){no[i], 1}, 2, 2 * DIM);
  }
}

int main(void) {
  kv_float_ground();
  kv_second_setup();
  return tests_run("nonumber", scratch_make, scratch_remove);
}
