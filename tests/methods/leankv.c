/* SPDX-License-Identifier: Apache-2.0
 *
 * LeanKV's decision of one step, by hand: four high and two low entries, step
 * by step, by both rules and by counts; with a tier between; and thresholds.
 */
#include "ref/methods/leankv.h"
#include "tests/support/rig.h"
#include <string.h>

enum { A, B, C, D, E, F, X1, X2, X3, X4, NEW0, NEW1, NEW2, NAMES };
enum { HIGH, LOW };

typedef struct worked {
  float score[NAMES];
  int tier[NAMES]; /* GONE: not there */
} worked;

static const float two[] = {.01f, .0002f}, three[] = {.01f, .002f, .0002f};

static worked start(void) {
  worked w = {.score = {.03f, .0125f, .006f, .015f, .004f, .0001f, .02f, .005f,
                        .0001f, .011f}};
  for (int i = 0; i < NAMES; i++)
    w.tier[i] = i < E ? HIGH : i <= F ? LOW : GONE;
  return w;
}

static void least(const worked *w, int end, int *of) {
  for (int t = 0; t < TIERS; t++) {
    of[t] = -1;
    for (int i = 0; i < end; i++)
      if (w->tier[i] == t && (of[t] < 0 || w->score[i] < w->score[of[t]]))
        of[t] = i;
  }
}

static void carry_out(worked *w, decision d) {
  for (int m = 0; m < d.n; m++) w->tier[d.entry[m]] = d.to[m];
}

/* Of each tier, high first, the names of what it holds. */
static void holds(const worked *w, const char *const *in, int tiers) {
  static const char names[] = "abcdef1234xyz";
  for (int t = 0; t < tiers; t++)
    for (int i = 0; i < NAMES; i++)
      assert_int_equal(w->tier[i] == t, strchr(in[t], names[i]) != NULL);
}
#define HOLDS(w, ...)                                                          \
  holds(w, (const char *const[]){__VA_ARGS__},                                 \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* The candidate is in the high tier, as the window is. */
static void paper_step(worked *w, int tiers, const float *floor,
                       int candidate) {
  int l[TIERS];
  w->tier[candidate] = HIGH;
  least(w, NAMES, l);
  carry_out(w, kv_lean_paper(tiers, w->score, floor, candidate, l));
}

TEST(by_paper) {
  worked w = start();
  paper_step(&w, 2, two, X1);
  HOLDS(&w, "abd1", "cef");
  paper_step(&w, 2, two, X2);
  HOLDS(&w, "abd1", "ce2");
  paper_step(&w, 2, two, X3);
  HOLDS(&w, "abd1", "ce2");
  paper_step(&w, 2, two, X4);
  HOLDS(&w, "abd14", "ce2");
  w = start();
  paper_step(&w, 2, two, X4);
  HOLDS(&w, "abd4", "cef");
}

/* Only what stands before `end` is outside the window. */
static void code_step(worked *w, int tiers, const float *floor, int end,
                      int arrives) {
  int l[TIERS];
  least(w, end, l);
  carry_out(w, kv_lean_code(tiers, w->score, floor, l));
  w->tier[arrives] = HIGH;
}

TEST(by_code) {
  worked w = start();
  w.tier[X1] = w.tier[X2] = w.tier[X3] = HIGH; /* x1 just left the window */
  code_step(&w, 2, two, X2, NEW0);
  HOLDS(&w, "abd123x", "ce");
  w.tier[X2] = w.tier[X3] = GONE; /* the window is not looked at */
  code_step(&w, 2, two, X2, NEW1);
  code_step(&w, 2, two, X2, NEW2);
  HOLDS(&w, "abd1xyz", "ce");
  w.score[C] = .0001f; /* both tiers have one below the lower threshold */
  w.score[A] = .0001f;
  code_step(&w, 2, two, X2, NEW2);
  /* a is not less than the low tier's least: it is not pruned */
  assert_int_equal(w.tier[A], LOW);
  assert_int_equal(w.tier[C], GONE);
  w = start();
  for (int i = A; i <= F; i++) w.tier[i] = GONE;
  code_step(&w, 2, two, X1, NEW0); /* nothing is outside the window */
  HOLDS(&w, "x", "");
}

/* The same with a tier between: from .002 on. */
TEST(three_tiers) {
  worked w = start();
  w.tier[F] = 2;
  paper_step(&w, 3, three, X1); /* c makes room, and is of the middle tier */
  HOLDS(&w, "abd1", "ec", "f");
  paper_step(&w, 3, three, X2); /* e, the least there, is still of it */
  HOLDS(&w, "abd1", "ec2", "f");
  paper_step(&w, 3, three, X3);
  HOLDS(&w, "abd1", "ec2", "f");
  w.score[E] = .001f;
  w.score[X3] = .003f;
  paper_step(&w, 3, three, X3); /* two move; nobody asks f */
  HOLDS(&w, "abd1", "c23", "ef");
  w = start();
  w.tier[F] = 2;
  w.score[E] = .001f;
  code_step(&w, 3, three, X1, NEW0); /* one from each tier into the next */
  HOLDS(&w, "abdx", "c", "e");
  code_step(&w, 3, three, X1, NEW1); /* the least of the high tier is of it */
  HOLDS(&w, "abdxy", "c", "e");
  w.score[B] = .0015f;
  code_step(&w, 3, three, X1, NEW2); /* past c, which stays; e does, too */
  HOLDS(&w, "adxyz", "c", "be");
  w.score[A] = .0001f;
  code_step(&w, 3, three, X1, NEW2); /* past all */
  HOLDS(&w, "dxyz", "c", "be");
}

/* Tiers of at most 2, 1 and 1. */
TEST(by_counts) {
  static const int most[] = {2, 1, 1};
  int held[] = {4, 1, 1}, l[TIERS];
  worked w = start();
  w.tier[F] = 2;
  least(&w, NAMES, l);
  /* c is not less than e, nor e than f: each takes the other's place */
  carry_out(&w, kv_lean_counts(3, w.score, held, most, l));
  HOLDS(&w, "abd", "c", "e");
  w.score[B] = .001f;
  held[0] = 3;
  least(&w, NAMES, l);
  carry_out(&w, kv_lean_counts(3, w.score, held, most, l)); /* past both */
  HOLDS(&w, "ad", "c", "e");
  held[0] = 2, held[1] = 0;
  w.tier[C] = 2, held[2] = 2;
  least(&w, NAMES, l);
  carry_out(&w, kv_lean_counts(3, w.score, held, most, l));
  HOLDS(&w, "ad", "", "c"); /* one too many below, though none comes */
}

TEST(edges) {
  params o = {.variant = CODE, .window = 4, .alphas = {.of = {2, 1}}};
  const float weights[] = {.25f, 4};
  assert_true(kv_alpha_threshold(&o.alphas, NULL, HIGH, 1) == 1.0f); /* not 2 */
  assert_true(kv_alpha_threshold(&o.alphas, NULL, HIGH, 8) == .25f);
  o.alphas.weight[LOW] = 1;
  assert_true(kv_alpha_threshold(&o.alphas, weights, HIGH, 8) == .0625f);
  assert_true(kv_alpha_threshold(&o.alphas, weights, LOW, 8) == .5f);
  assert_int_equal(kv_lean_bound(&o, 3, 0, false), 0);
  assert_int_equal(kv_lean_bound(&o, 9, 0, false), 5);
  assert_int_equal(kv_lean_bound(&o, 9, 0, true), 6);
  assert_int_equal(kv_lean_bound(&o, 9, 6, true), 0); /* three have counted */
  assert_int_equal(kv_lean_seen(&o, 9, 6, 2), 3);
  assert_int_equal(kv_lean_seen(&o, 9, 6, 8), 1); /* its own */
  o.variant = PAPER;
  assert_int_equal(kv_lean_seen(&o, 9, 0, 7), 1);
}

RIG_TESTS(leankv, RIG_CASE(by_paper), RIG_CASE(by_code), RIG_CASE(three_tiers),
          RIG_CASE(by_counts), RIG_CASE(edges))
