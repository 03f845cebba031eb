/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of judging a decision (sim/run/grade/judge.h) and of finding what
 * decided it (sim/run/grade/ranked.h): a difference is a tie only where every
 * index that was swapped has a score near the cut, whole, and as many came as
 * went. Outputs of two types are not compared (sim/run/grade/outputs.h). What
 * is no number is never right, of who recomputes a trace and of who grades
 * outputs: NaN is neither above a tolerance nor below it, an infinity tolerates
 * any difference that is a share of it, and a maximum passes over a NaN, or
 * forgets one.
 */
#include "ref/parts/parts.h"
#include "sim/run/grade/outputs.h"
#include "sim/run/grade/ranked.h"
#include "sim/run/grade/wrongs.h"
#include "tests/support/bundled.h"
#include "tests/support/scratch.h"
#include "tests/support/told.h"
#include "tests/support/traces/tracefile.h"
#include "traces/container/writer.h"
#include "traces/trace/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 10 };

/* Tokens 10..19; the cut is 4, its neighbours 4.002 and 3.998. */
static uint32_t id[N] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
static float score[N] = {9, 4.002f, 4, 3.998f, 1, 8, 0, 0, 0, 0};

typedef struct scene {
  kv_ranks ranks;
  bool keep[N], ours[N], theirs[N];
  kv_sides s;
  kv_judged j;
} scene;

static void selected(void *self, const kv_selection *s) {
  kv_ranks_add(self, s);
}

/* The four best of the first eight, and the last two. */
static void open_scene(scene *x) {
  *x = (scene){0};
  kv_ranks_open(N, &x->ranks);
  const kv_selecting look = {.self = &x->ranks, .selected = selected};
  kv_selecting_now = &look;
  kv_top(score, N - 2, 4, x->keep);
  kv_selecting_now = NULL;
  kv_top(score, 3, 1, x->ours); /* nobody looks on */
  assert_int_equal(x->ranks.n, 1);
  x->keep[N - 2] = x->keep[N - 1] = true;
  memcpy(x->ours, x->keep, sizeof x->ours);
  memcpy(x->theirs, x->keep, sizeof x->theirs);
  x->s = (kv_sides){.n = N, .id = id, .ours = x->ours, .theirs = x->theirs};
}

static void judge(scene *x, double tie, kv_grade grade, kv_wrong why) {
  x->s.by = kv_ranks_of_keep(&x->ranks, 0, x->keep, N, x->ours);
  assert_non_null(x->s.by);
  kv_judge(&x->s, tie, &x->j);
  assert_int_equal(x->j.grade, grade);
  assert_int_equal(x->j.why, why);
}

static void swap(scene *x, int took, int left) {
  x->theirs[took] = true;
  x->theirs[left] = false;
}

TEST(test_scores) {
  scene x;
  open_scene(&x);
  judge(&x, 0, KV_GRADE_EQUAL, KV_WRONG_NOT);
  assert_true(x.j.has_cut && x.j.cut == 4);
  swap(&x, 3, 2);
  judge(&x, 1e-3, KV_GRADE_TIE, KV_WRONG_NOT);
  judge(&x, 1e-4, KV_GRADE_WRONG, KV_WRONG_SCORE);
  assert_int_equal(x.j.took, 1);
  assert_int_equal(x.j.taken[0].first, 13);
  assert_int_equal(x.j.missed[0].last, 12);
  swap(&x, 4, 1); /* one of the two is too far */
  judge(&x, 1e-3, KV_GRADE_WRONG, KV_WRONG_SCORE);
  kv_ranks_close(&x.ranks);
}

TEST(test_count) {
  scene x;
  open_scene(&x);
  x.theirs[3] = true; /* near the cut, and one too many */
  judge(&x, 1, KV_GRADE_WRONG, KV_WRONG_COUNT);
  x.ranks.ranked[0].any_count = true;
  judge(&x, 1e-3, KV_GRADE_TIE, KV_WRONG_NOT);
  x.theirs[N - 1] = false; /* always kept */
  judge(&x, 1e9, KV_GRADE_WRONG, KV_WRONG_FORCED);
  x.s.fault = KV_WRONG_DUPLICATE;
  judge(&x, 1e9, KV_GRADE_WRONG, KV_WRONG_DUPLICATE);
  kv_ranks_close(&x.ranks);
}

TEST(test_order) {
  scene x;
  char text[KV_VERDICT_TEXT];
  open_scene(&x);
  x.s.reordered = true;
  judge(&x, 1, KV_GRADE_WRONG, KV_WRONG_ORDER);
  x.s.reordered = false;
  swap(&x, 4, 0);
  x.j.lane = 3;
  x.j.head = -1;
  x.j.layer = 1;
  x.j.step = 77;
  judge(&x, 0.5, KV_GRADE_WRONG, KV_WRONG_SCORE);
  assert_string_equal(kv_judged_text(&x.j, 0.5, 1, text),
                      "layer 1, step 77, lane 3: no tie; they took token 14 "
                      "(1) and left token 10 (9); the cut is 4, a tie within "
                      "2 of it");
  x.j.took = KV_MOST_APART + 100; /* more than are held, none too long */
  for (int i = 0; i < KV_MOST_APART; i++)
    x.j.taken[i] = (kv_apart){1 << 30, (1 << 30) + 1, true, -1.234567e-30f};
  kv_judged_text(&x.j, 0.5, 1, text);
  assert_non_null(strstr(text, "and 160 more"));
  kv_ranks_close(&x.ranks);
}

/* Another number is what is said, also where no score decides. */
TEST(test_budget) {
  scene x;
  char text[KV_VERDICT_TEXT];
  open_scene(&x);
  x.j.head = -1;
  x.theirs[N - 1] = x.theirs[1] = false;
  judge(&x, 1e9, KV_GRADE_WRONG, KV_WRONG_COUNT);
  assert_non_null(
      strstr(kv_judged_text(&x.j, 0, 1, text), ": 4 entries, not 6;"));
  memset(x.theirs, true, sizeof x.theirs);
  x.s.no_list = true;
  judge(&x, 1e9, KV_GRADE_WRONG, KV_WRONG_COUNT);
  assert_non_null(strstr(
      kv_judged_text(&x.j, 0, 1, text),
      ": no list for this step, which means all 10 live tokens, not 6;"));
  x.s.by = NULL; /* nothing ranked */
  kv_judge(&x.s, 1e9, &x.j);
  assert_int_equal(x.j.why, KV_WRONG_COUNT);
  swap(&x, 3, 0);
  x.theirs[4] = x.theirs[6] = x.theirs[7] = false;
  kv_judge(&x.s, 1e9, &x.j); /* as many, another one */
  assert_int_equal(x.j.why, KV_WRONG_FORCED);
  kv_ranks_close(&x.ranks);
}

/* What is no number is near to nothing, an infinity to itself alone. */
TEST(test_no_number) {
  static const struct {
    float score, cut;
    kv_wrong why;
  } pair[] = {{NAN, 4, KV_WRONG_SCORE},
              {4, NAN, KV_WRONG_SCORE},
              {NAN, NAN, KV_WRONG_SCORE},
              {4, INFINITY, KV_WRONG_SCORE},
              {4, -INFINITY, KV_WRONG_SCORE},
              {-INFINITY, 4, KV_WRONG_SCORE},
              {-INFINITY, INFINITY, KV_WRONG_SCORE},
              {4, 4, KV_WRONG_NOT}};
  for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
    scene x;
    open_scene(&x);
    swap(&x, 3, 2);
    kv_ranked *by = &x.ranks.ranked[0];
    by->score[2] = by->cut = pair[i].cut;
    by->score[3] = pair[i].score;
    /* The one that left is at the cut, where that is a number. */
    judge(&x, 1, pair[i].why ? KV_GRADE_WRONG : KV_GRADE_TIE, pair[i].why);
    kv_ranks_close(&x.ranks);
  }
}

/* The least tie is the one at which it turns, to the bit; none where the
 * score is no matter. */
TEST(test_least) {
  scene x;
  char text[KV_TIE_TEXT];
  open_scene(&x);
  judge(&x, 0, KV_GRADE_EQUAL, KV_WRONG_NOT);
  assert_true(x.j.least_tie == 0);
  swap(&x, 3, 2);
  judge(&x, 0, KV_GRADE_WRONG, KV_WRONG_SCORE);
  double least = x.j.least_tie;
  assert_true(least > 4e-4 && least < 6e-4);
  judge(&x, least, KV_GRADE_TIE, KV_WRONG_NOT);
  assert_true(x.j.least_tie == least);
  judge(&x, nextafter(least, 0), KV_GRADE_WRONG, KV_WRONG_SCORE);
  x.s.reordered = true;
  judge(&x, 0, KV_GRADE_WRONG, KV_WRONG_SCORE);
  assert_true(isinf(x.j.least_tie));
  x.s.reordered = false;
  x.theirs[N - 1] = false;
  judge(&x, 1, KV_GRADE_WRONG, KV_WRONG_COUNT);
  assert_true(isinf(x.j.least_tie));
  kv_ranks_close(&x.ranks);
  assert_string_equal(kv_tie_text(0.0081, text), "8.1e-3");
  assert_string_equal(kv_tie_text(0.0081001, text), "8.2e-3");
  assert_string_equal(kv_tie_text(0.00991, text), "1.0e-2");
  assert_string_equal(kv_tie_text(3, text), "3.0e0");
  assert_string_equal(kv_tie_text(0, text), "0");
}

/* Packed, each comes back as it was. */
TEST(test_wrongs) {
  kv_wrongs w = {0};
  kv_judged j = {.layer = 7}, k;
  size_t at = 0;
  assert_false(kv_wrongs_next(&w, &at, &k));
  for (int i = 0; i < 200; i++) {
    j.step = i;
    j.took = i % 3 * 50;
    j.left = i % 2;
    for (int r = 0; r < KV_MOST_APART; r++) {
      j.taken[r].first = i + r;
      j.missed[r].last = i - r;
    }
    kv_wrongs_add(&w, &j);
  }
  for (int i = 0; i < 200; i++) {
    assert_true(kv_wrongs_next(&w, &at, &k));
    int took = k.took < KV_MOST_APART ? k.took : KV_MOST_APART;
    assert_true(k.layer == 7 && k.step == i && k.took == i % 3 * 50);
    for (int r = 0; r < took; r++) assert_int_equal(k.taken[r].first, i + r);
    if (k.left) assert_int_equal(k.missed[0].last, i);
  }
  assert_false(kv_wrongs_next(&w, &at, &k));
  kv_wrongs_free(&w);
}

/* Pages of two: five of them, the last is not ranked. */
TEST(test_pages) {
  scene x;
  bool page[4];
  open_scene(&x);
  const kv_selecting look = {.self = &x.ranks, .selected = selected};
  float u[4] = {7, 5, 4.99f, 1};
  kv_ranks_forget(&x.ranks);
  kv_selecting_now = &look;
  kv_top(u, 4, 2, page);
  kv_selecting_now = NULL;
  for (int i = 0; i < N; i++) x.ours[i] = x.theirs[i] = i < 4 || i >= 8;
  x.s.by = kv_ranks_of_view(&x.ranks, 2, N);
  assert_int_equal(x.s.by->unit, 2);
  swap(&x, 4, 2);
  swap(&x, 5, 3);
  kv_judge(&x.s, 1e-2, &x.j);
  assert_int_equal(x.j.grade, KV_GRADE_TIE);
  assert_int_equal(x.j.taken[0].first, 14);
  assert_int_equal(x.j.taken[0].last, 15);
  swap(&x, 3, 5); /* half a page each */
  kv_judge(&x.s, 1e-2, &x.j);
  assert_int_equal(x.j.why, KV_WRONG_PART);
  /* The same, kept as a list: explained by pages, not by entries. */
  const kv_ranked *by = kv_ranks_of_keep(&x.ranks, 2, NULL, N, x.ours);
  assert_true(by && by->unit == 2);
  assert_null(kv_ranks_of_keep(&x.ranks, 0, NULL, N, x.ours));
  kv_ranks_close(&x.ranks);
}

TEST(test_selections) {
  kv_ranks r;
  kv_ranks_open(N, &r);
  const kv_selecting look = {.self = &r, .selected = selected};
  bool in[4] = {true, true, false, true}, a[3], b[2];
  const float one[4] = {3, 2, 1, 4}, *both[2] = {one, one + 2};
  bool *keep[2] = {a, b};
  kv_selecting_now = &look;
  kv_argmin(one, 4, in);
  kv_top_shared(both, (int[]){3, 2}, 2, 2, keep); /* 3 2 1 | 1 4 */
  kv_top_shared(both, (int[]){3, 2}, 2, 9, keep); /* all of them */
  kv_selecting_now = NULL;
  assert_int_equal(r.n, 5);
  assert_true(r.shared);
  assert_int_equal(r.ranked[0].fate[1], KV_LEFT);
  assert_int_equal(r.ranked[0].fate[2], KV_UNRANKED);
  assert_true(r.ranked[0].has_cut && r.ranked[0].cut == 3);
  for (int l = 1; l < 3; l++)
    assert_true(r.ranked[l].has_cut && r.ranked[l].cut == 3 &&
                r.ranked[l].any_count);
  assert_false(r.ranked[3].has_cut || r.ranked[4].has_cut);
  /* Flags name the last selection that wrote them. */
  assert_ptr_equal(kv_ranks_of_keep(&r, 0, b, 2, b), &r.ranked[4]);
  bool kept[4] = {true, false, true, true};
  r.n = 1;
  assert_ptr_equal(kv_ranks_of_keep(&r, 0, NULL, 4, kept), &r.ranked[0]);
  kept[0] = false;
  assert_null(kv_ranks_of_keep(&r, 0, NULL, 4, kept));
  kv_ranks_close(&r);
}

/* The first entry and the last two stay whatever they score. */
TEST(test_behind_sinks) {
  static const float ranked[3] = {3, 1, 2};
  bool keep[6] = {true, true, true, true, true, true};
  kv_ranks r;
  float x;
  kv_ranks_open(N, &r);
  const kv_selecting look = {.self = &r, .selected = selected};
  kv_selecting_now = &look;
  kv_top(ranked, 3, 2, keep + 1);
  kv_selecting_now = NULL;
  const kv_ranked *by = kv_ranks_of_keep(&r, 0, keep, 6, keep);
  assert_ptr_equal(by, &r.ranked[0]);
  assert_int_equal(by->first, 1);
  assert_false(kv_judge_score(by, 0, true, &x));
  for (int i = 0; i < 3; i++) {
    assert_true(kv_judge_score(by, i + 1, i != 1, &x));
    assert_true(x == ranked[i]);
  }
  assert_false(kv_judge_score(by, 4, true, &x));
  kv_ranks_close(&r);
}

/* --- outputs ------------------------------------------------------------ */

/* x everywhere, the last layer's of that type, the others' of `type`: of BF16 x
 * is 0. lse: of each row, too, and 1. */
static void put_outputs(const kv_trace *t, const kv_st_dtype type[2], float x,
                        bool lse, const char *to) {
  const kv_shape *s = &t->shape;
  const uint64_t shape[3] = {(uint64_t)s->n_heads,
                             (uint64_t)(s->n_tokens - s->prompt_len),
                             (uint64_t)s->d_v};
  size_t rows = (size_t)(shape[0] * shape[1]), n = rows * (size_t)shape[2];
  float *all = calloc(n, sizeof *all), *one = calloc(rows, sizeof *one);
  kv_st_writer *w = NULL;
  char name[64];
  for (size_t i = 0; i < n; i++) all[i] = x;
  for (size_t i = 0; i < rows; i++) one[i] = 1;
  kv_rc rc = kv_st_writer_open(to, 0, &w, &told);
  for (int i = 0; !rc && i < t->n_layers; i++) {
    int layer = t->layer[i].data.layer;
    snprintf(name, sizeof name, "layers.%d.o", layer);
    rc = kv_st_writer_declare(w, name, type[i == t->n_layers - 1], 3, shape,
                              &told);
    snprintf(name, sizeof name, "layers.%d.lse", layer);
    if (!rc && lse)
      rc = kv_st_writer_declare(w, name, KV_ST_F32, 2, shape, &told);
  }
  for (int i = 0; !rc && i < t->n_layers; i++) {
    size_t each = type[i == t->n_layers - 1] == KV_ST_F32 ? 4 : 2;
    rc = kv_st_writer_append(w, n * each, all, &told);
    if (!rc && lse) rc = kv_st_writer_append(w, 4 * rows, one, &told);
  }
  if (!rc) rc = kv_st_writer_finish(w, NULL, &told);
  if (rc) fail_msg("%s", told.text);
  kv_st_writer_close(w);
  free(all);
  free(one);
}

/* One tolerance is for one type. */
TEST(test_types) {
  kv_trace *t = bundled_open(BUNDLED_SMALL);
  char out[512];
  kv_outputs *o = NULL;
  static const kv_outputs_how usual = {.atol = -1, .rtol = -1};
  snprintf(out, sizeof out, "%s", scratch_path("out.safetensors"));
  put_outputs(t, (kv_st_dtype[]){KV_ST_BF16, KV_ST_BF16}, 0, false, out);
  works(kv_outputs_open(out, t, t->shape.prompt_len, &usual, &o, &told));
  assert_string_equal(kv_outputs_type(o), "BF16");
  kv_outputs_close(o);
  put_outputs(t, (kv_st_dtype[]){KV_ST_BF16, KV_ST_F32}, 0, false, out);
  assert_int_equal(
      kv_outputs_open(out, t, t->shape.prompt_len, &usual, &o, &told),
      KV_INPUT);
  assert_non_null(
      strstr(told.text, "tensor layers.3.o is F32 but layers.0.o is BF16;"));
  kv_trace_close(t);
}

/* --- what is no number -------------------------------------------------- */

#define F KV_ST_F32

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

/* A row whose element 2 is ours[0] and whose LSE is ours[1], the others as
 * theirs, in a layer of two rows; ulp: elements in the last bucket. */
static void grade_row(float theirs, const float ours[2], int wrong, int ulp) {
  const kv_outputs_how how = {.atol = -1, .rtol = .1};
  kv_trace *t = trace_of(1, 1);
  kv_outputs *o = NULL;
  float row[DIM];
  char path[600];
  snprintf(path, sizeof path, "%s", scratch_path("out.safetensors"));
  put_outputs(t, (kv_st_dtype[]){F, F}, theirs, true, path);
  works(kv_outputs_open(path, t, PROMPT, &how, &o, &told));
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
  return tests_run("judge", scratch_make, scratch_remove);
}
