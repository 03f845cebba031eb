/* SPDX-License-Identifier: Apache-2.0
 *
 * How alike tokens are, of tokens made of small whole numbers: against plain
 * loops over all pairs, and against numbers found by hand; the same by every
 * kernel set and any threads, and wherever the tokens stand (keys are turned
 * back). Entropies of codes by hand. Traces that are refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ref/ground/rope.h"
#include "sim/inspect/likeness.h"
#include "tests/support/scratch.h"
#include "traces/container/writer.h"

enum { KV = 2, D = 4, T = 90, WIDTH = 2 * KV * D, FROM = 16, REFERENCES = 2 };

static float k[KV][T][D], v[KV][T][D], turned[KV][T][D];
static float frequency[D / 2];
static int tokens = T;

/* Tokens come in kinds, which return every 7 to 40 tokens, and differ a bit. */
static void fill(void) {
  uint32_t x = 5;
  for (int t = 0; t < T; t++)
    for (int g = 0; g < KV; g++)
      for (int i = 0; i < D; i++) {
        int kind = t % (t % 3 ? 7 : 20);
        x = x * 1664525u + 1013904223u;
        k[g][t][i] =
            (float)((kind * (3 + i + g) % 11 - 5) * 4 + (int)(x >> 30));
        v[g][t][i] = (float)((kind * (5 + i) + g) % 7 + (int)(x >> 29 & 1));
      }
}

static void declare(kv_st_writer *w, const char *name, int rank, uint64_t a,
                    uint64_t b, uint64_t c) {
  uint64_t shape[3] = {a, b, c};
  assert_int_equal(kv_st_writer_declare(w, name, KV_ST_F32, rank, shape, NULL),
                   0);
}

static void append(kv_st_writer *w, float of[KV][T][D]) {
  for (int g = 0; g < KV; g++)
    kv_st_writer_append(w, (size_t)tokens * sizeof *of[g], of[g], NULL);
}

/* The first `tokens` of them; keys stand turned by their positions. */
static kv_trace *made(bool frequencies) {
  static const char *const meta[][2] = {
      {"format", "kvtrace"}, {"version", "1"},       {"model", "test"},
      {"n_layers", "6"},     {"n_heads", "2"},       {"n_kv_heads", "2"},
      {"head_dim", "4"},     {"layers", "[5]"},      {"attn.scale", "0.5"},
      {"prompt_len", "1"},   {"rope.layout", "half"}};
  const char *path = scratch_path("t.safetensors");
  const kv_rope rope = {NULL, frequency, 0};
  kv_turns turns;
  kv_st_writer *w;
  kv_trace *t;
  kv_err e = {0};
  assert_int_equal(kv_turns_open(&rope, T, D, 0, &turns, NULL), KV_OK);
  memcpy(turned, k, sizeof k);
  for (int g = 0; g < KV; g++)
    for (int i = 0; i < T; i++)
      kv_turn_forth(&turns, (uint32_t)i, turned[g][i]);
  kv_turns_close(&turns);
  assert_int_equal(kv_st_writer_open(path, 0, &w, NULL), KV_OK);
  declare(w, "layers.5.q", 3, KV, (uint64_t)tokens, D);
  declare(w, "layers.5.k", 3, KV, (uint64_t)tokens, D);
  declare(w, "layers.5.v", 3, KV, (uint64_t)tokens, D);
  if (frequencies) declare(w, "rope.inv_freq", 1, D / 2, 0, 0);
  for (size_t i = 0; i < sizeof meta / sizeof *meta; i++)
    kv_st_writer_meta(w, meta[i][0], meta[i][1], NULL);
  append(w, k);
  append(w, turned);
  append(w, v);
  if (frequencies) kv_st_writer_append(w, sizeof frequency, frequency, NULL);
  assert_int_equal(kv_st_writer_finish(w, NULL, NULL), KV_OK);
  kv_st_writer_close(w);
  if (kv_trace_open(path, &t, &e)) fail_msg("%s", e.text);
  return t;
}

static void look(const kv_kernels *kernel, int threads, kv_likenesses *out) {
  kv_err e = {0};
  kv_trace *t = made(true);
  memset(out, 0, sizeof *out);
  if (kv_likeness_layer(t, 0, kernel, threads, out->space, &e) ||
      kv_entropy_layer(t, 0, kernel, out->entropy[0], &e))
    fail_msg("%s", e.text);
  kv_trace_close(t);
}

/* --- by plain loops ------------------------------------------------------ */

static double element(int t, int i) {
  int g = i / D % KV;
  return (double)(i < KV * D ? k : v)[g][t][i % D];
}

static double square(int t, int width) {
  double sum = 0;
  for (int i = 0; i < width; i++) sum += element(t, i) * element(t, i);
  return sum;
}

static double between(int a, int b, int width, bool cosine) {
  double sum = 0;
  for (int i = 0; i < width; i++) {
    double gap = element(a, i) - element(b, i);
    sum += cosine ? element(a, i) * element(b, i) : gap * gap;
  }
  return cosine ? -sum / sqrt(square(a, width) * square(b, width)) : sum;
}

/* The n-th nearest of those before t that stride takes; -1: there is none. */
static int nearest(int t, int stride, int n, int width, bool cosine) {
  double least = -HUGE_VAL;
  int at = -1;
  for (; n >= 0; n--) {
    int next = -1;
    for (int j = 0; j < t; j++) {
      double d = between(t, j, width, cosine);
      if (j >= 8 && j % stride) continue;
      if (d < least || (d == least && j <= at)) continue;
      if (next < 0 || d < between(t, next, width, cosine)) next = j;
    }
    if (next < 0) return -1;
    least = between(t, next, width, cosine);
    at = next;
  }
  return at;
}

/* Squares that the mean of the k nearest of a stride misses. */
static double missed(int t, int stride, int most) {
  double sum = 0;
  for (int i = 0; i < WIDTH; i++) {
    double mean = 0;
    int n = 0;
    for (int j; n < most && (j = nearest(t, stride, n, WIDTH, false)) >= 0; n++)
      mean += element(j, i);
    sum += pow(element(t, i) - mean / n, 2);
  }
  return sum;
}

static void near(double a, double b, const char *what) {
  if (fabs(a - b) > 1e-9 * (1 + fabs(b)))
    fail_msg("%s: %.12g, not %.12g", what, a, b);
}

/* --- tests --------------------------------------------------------------- */

static kv_likenesses found; /* static: its gaps are zero */

static void plain_nearest(const kv_likeness *x, int width, bool cosine) {
  int64_t far = 0, close = 0, distances[KV_DISTANCES] = {0};
  double chance = 0, norm = 0, left = 0, raw = 0;
  for (int t = FROM; t < T; t++) {
    int j = nearest(t, 1, 0, width, cosine);
    double gap = between(t, j, width, false);
    far += t - j > 16;
    close += between(t, j, width, true) < -.9;
    distances[(int)log2(t - j)]++;
    chance += (t - 16.) / t / (T - FROM);
    norm += sqrt(gap) / (T - FROM);
    left += gap;
    raw += square(t, width);
  }
  assert_int_equal(x->tokens, T - FROM);
  assert_int_equal(x->far, far);
  assert_int_equal(x->close, close);
  assert_memory_equal(x->distances, distances, sizeof distances);
  near(x->chance, chance, "chance");
  near(x->residual[KV_LESS_NEAREST].norm, norm, "norm");
  near(x->residual[KV_LESS_NEAREST].share, left / raw, "share");
  near(x->residual[KV_LESS_NOTHING].share, 1, "raw share");
}

static void test_nearest(void **state) {
  (void)state;
  look(kv_kernels_best(), 2, &found);
  plain_nearest(&found.space[KV_SPACE_KV], WIDTH, false);
  plain_nearest(&found.space[KV_SPACE_K], KV * D, true);
  /* Both ways of looking have something to tell apart here. */
  assert_true(found.space[0].far > 10 && found.space[0].far < T - FROM - 10);
  assert_int_not_equal(found.space[0].far, found.space[1].far);
}

static void test_references(void **state) {
  double of[2] = {0}, all[2] = {0}, octave[2] = {0};
  int64_t n = 0;
  (void)state;
  look(kv_kernels_best(), 1, &found);
  for (int t = FROM; t < T; t++) {
    if (t % 5) of[0] += missed(t, 20, 2), all[0] += square(t, WIDTH);
    if (t % 10 == 0) continue;
    of[1] += missed(t, 10, 4), all[1] += square(t, WIDTH), n++;
    if (t < 64) continue;
    octave[0] += missed(t, 10, 4), octave[1] += square(t, WIDTH);
  }
  const kv_likeness *x = &found.space[KV_SPACE_KV];
  near(x->error[3][1], of[0] / all[0], "stride 20, 2 references");
  near(x->residual[KV_LESS_REFERENCES].share, of[1] / all[1], "references");
  near(x->by_position[6], octave[0] / octave[1], "positions 64 to 127");
  assert_int_equal(x->residual[KV_LESS_REFERENCES].tokens, n);
  assert_true(isnan(x->by_position[7]) && isnan(x->by_position[3]));
  assert_int_equal(found.space[KV_SPACE_K].residual[3].tokens, 0);
}

/* Every class holds what it says, and all of it is counted once. */
static void test_classes(void **state) {
  const kv_likeness *x = &found.space[KV_SPACE_KV];
  double sum = 0, least = HUGE_VAL;
  int64_t norms = 0, values = 0;
  (void)state;
  look(kv_kernels_best(), 1, &found);
  for (int c = 0; c < KV_NORMS; c++) norms += x->residual[0].norms[c];
  for (int c = 0; c < KV_VALUES; c++) values += x->residual[1].values[c];
  assert_int_equal(norms, T - FROM);
  assert_int_equal(values, (T - FROM) * WIDTH);
  for (int t = FROM; t < T; t++) {
    sum += square(t, WIDTH);
    least = fmin(least, square(t, WIDTH));
  }
  int c = (int)floor(4 * log2(sqrt(least)));
  for (int i = 0; i < KV_NORMS; i++)
    assert_int_equal(x->residual[0].norms[i] > 0 && i + KV_NORM_FIRST < c, 0);
  assert_true(x->residual[0].norms[c - KV_NORM_FIRST] > 0);
  double unit = sqrt(sum / (WIDTH * (T - FROM)));
  int64_t high = 0;
  for (int t = FROM; t < T; t++)
    for (int i = 0; i < WIDTH; i++)
      high += floor(8 * element(t, i) / unit) == 9;
  assert_int_equal(x->residual[0].values[9 - KV_VALUE_FIRST], high);
}

static void test_same_bits(void **state) {
  static const char *const sets[] = {"portable", "avx2", "avx512"};
  static kv_likenesses again;
  (void)state;
  look(kv_kernels_best(), 1, &found);
  for (int i = 0; i < 3; i++) {
    const kv_kernels *kernel;
    assert_int_equal(kv_kernels_named(sets[i], &kernel, NULL, NULL), 0);
    look(kernel, 1 + i, &again);
    assert_memory_equal(&found, &again, sizeof found);
  }
}

/* Turned keys are turned back: but for rounding nothing of it moves. */
static void test_turned(void **state) {
  static kv_likenesses turn;
  (void)state;
  look(kv_kernels_best(), 1, &found);
  frequency[0] = 1, frequency[1] = 0.01f;
  look(kv_kernels_best(), 1, &turn);
  frequency[0] = frequency[1] = 0;
  for (int space = 0; space < KV_SPACES; space++)
    for (int kind = 0; kind < KV_RESIDUALS; kind++) {
      double a = turn.space[space].residual[kind].share;
      double b = found.space[space].residual[kind].share;
      if (fabs(a - b) > 1e-3 * b) fail_msg("share %g, turned %g", b, a);
    }
}

static void test_spectrum(void **state) {
  const double rows[4][3] = {{3, 0, 0}, {0, 4, 0}, {3, 0, 0}, {0, 0, 0}};
  kv_spectrum s = {0};
  kv_gram g;
  (void)state;
  if (!kv_spectrum_can()) skip();
  assert_int_equal(kv_gram_open(3, 2, &g, NULL), KV_OK);
  kv_gram_add(&g, 4, rows[0]);
  assert_int_equal(kv_spectrum_of(&g, &s, NULL), KV_OK);
  kv_gram_close(&g);
  assert_int_equal(s.n, 3);
  near(s.share[0], 18 / 34., "first direction");
  near(s.sum[1], 1, "two directions");
  assert_int_equal(s.direction[2], 3);
}

/* One channel alternates, the others stand still, one of them where only 8 bits
 * tell it apart from its neighbours. */
static void test_entropy(void **state) {
  const double bit = 1. / (KV * D);
  (void)state;
  tokens = 20;
  for (int t = 0; t < tokens; t++)
    for (int g = 0; g < KV; g++)
      for (int i = 0; i < D; i++)
        k[g][t][i] = g && i == 2 ? 64 : g || i || t % 2 == 0 ? 127 : -127;
  look(kv_kernels_best(), 1, &found);
  const kv_entropy *plain = &found.entropy[KV_ENTROPY_KEYS][KV_CODED_TOKENS];
  const kv_entropy *delta = &found.entropy[KV_ENTROPY_KEYS][KV_CODED_DELTAS];
  assert_int_equal(plain->bins, 16); /* layer 5 of 6 */
  assert_int_equal(plain->elements, tokens * KV * D);
  assert_true(fabs(plain->bits - bit) < 1e-6);
  double gap = 4 * 127 / 7. - 64;
  near(plain->error, gap * gap / (64 * 64 + 7 * 127 * 127), "error");
  near(plain->scales, 16. / (KV * D), "scales");
  near(plain->tables, 16. * 16 / tokens, "tables");
  /* Of 18 deltas 10 are -254 and 8 are 0; both anchors are 127. */
  double want = -(10 * log2(10 / 18.) + 8 * log2(8 / 18.)) / tokens * bit;
  if (fabs(delta->bits - want) > 1e-6)
    fail_msg("%g bits, not %g", delta->bits, want);
  near(delta->error, 0, "error of deltas");
  assert_int_equal(kv_entropy_bins(KV_ENTROPY_KEYS, 9, 32), 32);
  assert_int_equal(kv_entropy_bins(KV_ENTROPY_KEYS, 10, 32), 16);
  assert_int_equal(kv_entropy_bins(KV_ENTROPY_VALUES, 1, 32), 32);
  assert_int_equal(kv_entropy_bins(KV_ENTROPY_VALUES, 2, 32), 16);
  tokens = T;
  fill();
}

static void refused(bool frequencies, const char *why) {
  kv_likeness out[KV_SPACES];
  kv_err e = {0};
  kv_trace *t = made(frequencies);
  assert_int_equal(kv_likeness_layer(t, 0, kv_kernels_best(), 1, out, &e),
                   KV_INPUT);
  if (!strstr(e.text, why)) fail_msg("no '%s' in: %s", why, e.text);
  kv_trace_close(t);
}

static void test_refused(void **state) {
  (void)state;
  refused(false, "rope.inv_freq");
  tokens = 16;
  refused(true, "has 16 tokens");
  tokens = 1;
  refused(true, "has 1 token,");
  tokens = T;
  for (int i = 0; i < D; i++) k[0][40][i] = 3e38f;
  refused(true, "no distance of token 40");
  k[0][40][0] = NAN;
  refused(true, "layers.5.k");
  fill();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nearest), cmocka_unit_test(test_references),
      cmocka_unit_test(test_classes), cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_turned),  cmocka_unit_test(test_spectrum),
      cmocka_unit_test(test_entropy), cmocka_unit_test(test_refused)};
  fill();
  return cmocka_run_group_tests_name("residuals of tokens", tests, scratch_make,
                                     scratch_remove);
}
