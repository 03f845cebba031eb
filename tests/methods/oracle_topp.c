/* SPDX-License-Identifier: Apache-2.0
 *
 * Oracle top-p, against probabilities worked out in binary64: what it attends
 * holds the share asked for, and without its least member it would not, for
 * every head and step; no token outside weighs more than one inside. p = 0 is
 * one token, p = 1 on data without vanishing masses is dense.
 */
#include "tests/support/rig.h"

#include <stdio.h>

/* Sum, least and, of the rest, largest probability of the ids. */
static double look(int n, const uint32_t *id, int all, const double *p,
                   double *least, double *outside) {
  bool in[64] = {false};
  double mass = 0;
  *least = 2;
  *outside = 0;
  for (int i = 0; i < n; i++) in[id[i]] = true;
  for (int t = 0; t < all; t++) {
    if (in[t]) mass += p[t];
    if (in[t] && p[t] < *least) *least = p[t];
    if (!in[t] && p[t] > *outside) *outside = p[t];
  }
  return mass;
}

static void least_prefix(const char *spec, double share) {
  rig_case c = RIG_SHAPE(4, 2, 24, 8, 48, 8);
  double p[48], least, outside;
  uint32_t id[48];
  int fewest = 99, most = 0;
  rig_data(&c, 5);
  rig *r = rig_open(&c, spec);
  for (int step = c.prompt_len + 1; step <= c.n_tokens; step++) {
    rig_to(r, step);
    for (int h = 0; h < c.heads; h++) {
      int n = rig_seen(r, h, id);
      rig_exact(&c, h, step - 1, NULL, p);
      double mass = look(n, id, step, p, &least, &outside);
      assert_true(mass >= share - 1e-6);
      assert_true(mass - least < share + 1e-6);
      assert_true(outside <= least);
      fewest = n < fewest ? n : fewest;
      most = n > most ? n : most;
    }
  }
  assert_true(fewest < most); /* the share asks for different numbers */
  rig_close(r);
  rig_data_free(&c);
}

TEST(prefixes) {
  least_prefix("oracle-topp", 0.95);
  least_prefix("oracle-topp:p=0.5", 0.5);
}

TEST(ends) {
  rig_case c = RIG_SHAPE(2, 1, 16, 4, 40, 20);
  rig_data(&c, 6);
  rig *r = rig_open(&c, "oracle-topp:p=0");
  for (int step = 21; step <= 40; step++) {
    rig_to(r, step);
    assert_int_equal(rig_view(r, 0)->entries, 1);
    assert_int_equal(rig_view(r, 1)->entries, 1);
  }
  rig_close(r);
  rig_law_dense(&c, "oracle-topp:p=1");
  rig_law(&c, "oracle-topp:p=0.9", NULL, NULL);
  rig_law_refused(&c, "oracle-topp:p=1.5", KV_USAGE, "p", "1");
  rig_data_free(&c);
}

/* p is the nearest multiple of 2^-20: of 20 equal logits .6, which is then
 * more, asks for 13, and the multiple below it for 12; .65 becomes less. */
TEST(equals) {
  static const struct {
    const char *p;
    int seen;
  } of[] = {{"0.6", 13}, {"0.5999995", 12}, {"0.65", 13}, {"0.65000048", 14}};
  static const char *const method[] = {"oracle-topp:p=", "twilight:skip=0:p="};
  rig_case c = RIG_SHAPE(1, 1, 8, 4, 20, 19);
  static const float none[20 * 8]; /* queries, keys and values of zeros */
  uint32_t id[20];
  c.q = c.k = c.v = none;
  for (size_t m = 0; m < 2; m++)
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
      char spec[64];
      snprintf(spec, sizeof spec, "%s%s", method[m], of[i].p);
      rig *r = rig_open(&c, spec);
      rig_to(r, 20);
      assert_int_equal(rig_seen(r, 0, id), of[i].seen);
      rig_close(r);
    }
}

RIG_TESTS(oracle_topp, RIG_CASE(prefixes), RIG_CASE(equals), RIG_CASE(ends))
