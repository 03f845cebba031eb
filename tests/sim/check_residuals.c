/* SPDX-License-Identifier: Apache-2.0
 *
 * How alike tokens are, of tokens made of small whole numbers: against plain
 * loops over all pairs, and against numbers found by hand; the same by every
 * kernel set and any threads, and wherever the tokens stand (keys are turned
 * back). Entropies of codes by hand. Traces that are refused.
 */
#include "tests/sim/alike.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scratch.h"

enum {
  KV = ALIKE_KV,
  D = ALIKE_D,
  T = ALIKE_T,
  WIDTH = ALIKE_WIDTH,
  FROM = KV_NEAREST_FROM
};

void test_rebuilt(void **state); /* rebuilt.c */
void test_weights_refused(void **state);

/* --- tests --------------------------------------------------------------- */

static kv_similarities found; /* static: its gaps are zero */

static void plain_nearest(const kv_similarity *x, int width, bool cosine) {
  int64_t far = 0, close = 0, distances[KV_DISTANCES] = {0};
  double chance = 0, norm = 0, left = 0, raw = 0;
  for (int t = FROM; t < T; t++) {
    int j = alike_nearest(t, 1, 0, width, cosine);
    double gap = alike_between(t, j, width, false);
    far += t - j > 16;
    close += alike_between(t, j, width, true) < -.9;
    distances[(int)log2(t - j)]++;
    chance += (t - 16.) / t / (T - FROM);
    norm += sqrt(gap) / (T - FROM);
    left += gap;
    raw += alike_square(t, width);
  }
  assert_int_equal(x->tokens, T - FROM);
  assert_int_equal(x->far, far);
  assert_int_equal(x->close, close);
  assert_memory_equal(x->distances, distances, sizeof distances);
  alike_near(x->chance, chance, "chance");
  alike_near(x->residual[KV_LESS_NEAREST].norm, norm, "norm");
  alike_near(x->residual[KV_LESS_NEAREST].share, left / raw, "share");
  alike_near(x->residual[KV_LESS_NOTHING].share, 1, "raw share");
}

TEST(test_nearest) {
  alike_look(kv_kernels_best(), 2, &found);
  plain_nearest(&found.space[KV_SPACE_KV], WIDTH, false);
  plain_nearest(&found.space[KV_SPACE_K], KV * D, true);
  /* Both ways of looking have something to tell apart here. */
  assert_true(found.space[0].far > 10 && found.space[0].far < T - FROM - 10);
  assert_int_not_equal(found.space[0].far, found.space[1].far);
}

TEST(test_references) {
  double of[2] = {0}, all[2] = {0}, octave[2] = {0};
  int64_t n = 0;
  alike_look(kv_kernels_best(), 1, &found);
  for (int t = FROM; t < T; t++) {
    if (t % 5)
      of[0] += alike_missed(t, 20, 2), all[0] += alike_square(t, WIDTH);
    if (t % 10 == 0) continue;
    of[1] += alike_missed(t, 10, 4), all[1] += alike_square(t, WIDTH), n++;
    if (t < 64) continue;
    octave[0] += alike_missed(t, 10, 4), octave[1] += alike_square(t, WIDTH);
  }
  const kv_similarity *x = &found.space[KV_SPACE_KV];
  alike_near(x->error[3][1], of[0] / all[0], "stride 20, 2 references");
  alike_near(x->residual[KV_LESS_REFERENCES].share, of[1] / all[1],
             "references");
  alike_near(x->by_position[6], octave[0] / octave[1], "positions 64 to 127");
  assert_int_equal(x->residual[KV_LESS_REFERENCES].tokens, n);
  assert_true(isnan(x->by_position[7]) && isnan(x->by_position[3]));
  assert_int_equal(found.space[KV_SPACE_K].residual[3].tokens, 0);
}

/* Every class holds what it says, and all of it is counted once. */
TEST(test_classes) {
  const kv_similarity *x = &found.space[KV_SPACE_KV];
  double sum = 0, least = HUGE_VAL;
  int64_t norms = 0, values = 0;
  alike_look(kv_kernels_best(), 1, &found);
  for (int c = 0; c < KV_NORMS; c++) norms += x->residual[0].norms[c];
  for (int c = 0; c < KV_VALUES; c++) values += x->residual[1].values[c];
  assert_int_equal(norms, T - FROM);
  assert_int_equal(values, (T - FROM) * WIDTH);
  for (int t = FROM; t < T; t++) {
    sum += alike_square(t, WIDTH);
    least = fmin(least, alike_square(t, WIDTH));
  }
  int c = (int)floor(4 * log2(sqrt(least)));
  for (int i = 0; i < KV_NORMS; i++)
    assert_int_equal(x->residual[0].norms[i] > 0 && i + KV_NORM_FIRST < c, 0);
  assert_true(x->residual[0].norms[c - KV_NORM_FIRST] > 0);
  double unit = sqrt(sum / (WIDTH * (T - FROM)));
  int64_t high = 0;
  for (int t = FROM; t < T; t++)
    for (int i = 0; i < WIDTH; i++)
      high += floor(8 * alike_element(t, i) / unit) == 9;
  assert_int_equal(x->residual[0].values[9 - KV_VALUE_FIRST], high);
}

TEST(test_same_bits) {
  static const char *const sets[] = {"portable", "avx2", "avx512"};
  static kv_similarities again;
  alike_look(kv_kernels_best(), 1, &found);
  for (int i = 0; i < 3; i++) {
    const kv_kernels *kernel;
    assert_int_equal(kv_kernels_named(sets[i], &kernel, NULL, NULL), 0);
    alike_look(kernel, 1 + i, &again);
    assert_memory_equal(&found, &again, sizeof found);
  }
}

/* Turned keys are turned back: but for rounding nothing of it moves. */
TEST(test_turned) {
  static kv_similarities turn;
  alike_look(kv_kernels_best(), 1, &found);
  alike_frequency[0] = 1, alike_frequency[1] = 0.01f;
  alike_look(kv_kernels_best(), 1, &turn);
  alike_frequency[0] = alike_frequency[1] = 0;
  for (int space = 0; space < KV_SPACES; space++)
    for (int kind = 0; kind < KV_RESIDUALS; kind++) {
      double a = turn.space[space].residual[kind].share;
      double b = found.space[space].residual[kind].share;
      if (!(fabs(a - b) <= 1e-3 * b)) fail_msg("share %g, turned %g", b, a);
    }
}

TEST(test_spectrum) {
  const double rows[4][3] = {{3, 0, 0}, {0, 4, 0}, {3, 0, 0}, {0, 0, 0}};
  kv_spectrum s = {0};
  kv_gram g;
  if (!kv_spectrum_can()) skip();
  assert_int_equal(kv_gram_open(3, 2, &g, NULL), KV_OK);
  kv_gram_add(&g, 4, rows[0]);
  assert_int_equal(kv_spectrum_of(&g, &s, NULL), KV_OK);
  kv_gram_close(&g);
  assert_int_equal(s.n, 3);
  alike_near(s.share[0], 18 / 34., "first direction");
  alike_near(s.sum[1], 1, "two directions");
  assert_int_equal(s.direction[2], 3);
}

/* One channel alternates, the others stand still, one of them where only 8 bits
 * tell it apart from its neighbours. */
TEST(test_entropy) {
  const double bit = 1. / (KV * D);
  alike_tokens = 20;
  for (int t = 0; t < alike_tokens; t++)
    for (int g = 0; g < KV; g++)
      for (int i = 0; i < D; i++)
        alike_k[g][t][i] = g && i == 2 ? 64 : g || i || t % 2 == 0 ? 127 : -127;
  alike_look(kv_kernels_best(), 1, &found);
  const kv_entropy *plain = &found.entropy[KV_ENTROPY_KEYS][KV_CODED_TOKENS];
  const kv_entropy *delta = &found.entropy[KV_ENTROPY_KEYS][KV_CODED_DELTAS];
  assert_int_equal(plain->bins, 16); /* layer 5 of 6 */
  assert_int_equal(plain->elements, alike_tokens * KV * D);
  assert_true(fabs(plain->bits - bit) < 1e-6);
  double gap = 4 * 127 / 7. - 64;
  alike_near(plain->error, gap * gap / (64 * 64 + 7 * 127 * 127), "error");
  alike_near(plain->scales, 16. / (KV * D), "scales");
  alike_near(plain->tables, 16. * 16 / alike_tokens, "tables");
  /* Of 18 deltas 10 are -254 and 8 are 0; both anchors are 127. */
  double want = -(10 * log2(10 / 18.) + 8 * log2(8 / 18.)) / alike_tokens * bit;
  if (!(fabs(delta->bits - want) <= 1e-6))
    fail_msg("%g bits, not %g", delta->bits, want);
  alike_near(delta->error, 0, "error of deltas");
  assert_int_equal(kv_entropy_bins(KV_ENTROPY_KEYS, 9, 32), 32);
  assert_int_equal(kv_entropy_bins(KV_ENTROPY_KEYS, 10, 32), 16);
  assert_int_equal(kv_entropy_bins(KV_ENTROPY_VALUES, 1, 32), 32);
  assert_int_equal(kv_entropy_bins(KV_ENTROPY_VALUES, 2, 32), 16);
  alike_tokens = T;
  alike_fill();
}

static void refused(bool frequencies, const char *why) {
  kv_similarity space[KV_SPACES];
  kv_compressors none = {0};
  kv_err e = {0};
  kv_trace *t = alike_made(frequencies);
  assert_int_equal(
      kv_similarity_layer(t, 0, kv_kernels_best(), 1, &none, space, NULL, &e),
      KV_INPUT);
  if (!strstr(e.text, why)) fail_msg("no '%s' in: %s", why, e.text);
  kv_trace_close(t);
}

TEST(test_refused) {
  refused(false, "rope.inv_freq");
  alike_tokens = 16;
  refused(true, "has 16 tokens");
  alike_tokens = 1;
  refused(true, "has 1 token,");
  alike_tokens = T;
  for (int i = 0; i < D; i++) alike_k[0][40][i] = 3e38f;
  refused(true, "no distance of token 40");
  alike_k[0][40][0] = NAN;
  refused(true, "layers.5.k");
  alike_fill();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nearest),   cmocka_unit_test(test_references),
      cmocka_unit_test(test_rebuilt),   cmocka_unit_test(test_classes),
      cmocka_unit_test(test_same_bits), cmocka_unit_test(test_turned),
      cmocka_unit_test(test_spectrum),  cmocka_unit_test(test_entropy),
      cmocka_unit_test(test_refused),   cmocka_unit_test(test_weights_refused)};
  alike_fill();
  return cmocka_run_group_tests_name("residuals of tokens", tests, scratch_make,
                                     scratch_remove);
}
