/* SPDX-License-Identifier: Apache-2.0
 *
 * Oracle eviction. The worked case: eight keys, whose probabilities to six
 * digits were worked out from the definition in binary64. Then the definition
 * replayed literally beside it, in binary64, for lanes of a KV head and of a
 * query head. It is a ruler and no bound: a case in which dropping another
 * token retains more.
 */
#include "tests/support/rig.h"
#include <string.h>

/* Row 4: .366388 .089075 .366388 .089075 .089075
 * Row 5: .093347 .093347 .383959 .022694 .383959 .022694
 * Row 6: .078798 .159812 .159812 .078798 .324116 .038853 .159812
 * Row 7: .129572 .031501 .532964 .007658 .129572 .031501 .129572 .007658
 * Before row 4: .668105 .373735 1.443123 .198225. Before row 5: .301717 of
 * token 0, 1.076735, .837647 of token 4. Before row 6: .692776, .453688 and
 * .070354 of token 5. Before row 7 tokens 4 and 6 are equal. Behind it nothing
 * comes. */
TEST(worked) {
  rig_case c = rig_eight(4);
  rig *r = rig_open(&c, "oracle-evict:budget=2");
  rig_holds(r, 0, (int[]){0, 2, -1});
  rig_to(r, 5);
  rig_saw(r, 0, (int[]){0, 2, 4, -1});
  rig_holds(r, 0, (int[]){2, 4, -1}); /* the newest stays, token 0 goes */
  rig_to(r, 6);
  rig_holds(r, 0, (int[]){2, 4, -1}); /* the newest goes */
  rig_to(r, 7);
  rig_holds(r, 0, (int[]){2, 4, -1}); /* of equals the lower entry stays */
  rig_to(r, 8);
  rig_saw(r, 0, (int[]){2, 4, 7, -1});
  rig_holds(r, 0, (int[]){2, 4, -1});
  rig_close(r);
  c.prompt_len = 6;
  rig_keeps(&c, "oracle-evict:budget=3", 0, (int[]){0, 2, 4, -1});
  rig_keeps(&c, "oracle-evict:budget=4", 0, (int[]){0, 1, 2, 4, -1});
  c.prompt_len = 8;
  rig_keeps(&c, "oracle-evict:budget=3", 0, (int[]){0, 1, 2, -1});
}

/* --- the definition, literally -------------------------------------------- */

/* What tokens get of the rows of tokens step.. and heads first..+heads-1. */
static void to_come(const rig_case *c, int first, int heads, int step,
                    double *sum) {
  double p[64];
  memset(sum, 0, (size_t)c->n_tokens * sizeof *sum);
  for (int t = step; t < c->n_tokens; t++)
    for (int h = first; h < first + heads; h++) {
      rig_exact(c, h, t, NULL, p);
      for (int j = 0; j <= t; j++) sum[j] += p[j];
    }
}

/* Drops the least until `budget` of held[0..n) are left; returns how many. */
static int settle(int budget, int n, int *held, const double *sum) {
  while (n > budget) {
    int least = 0;
    for (int i = 1; i < n; i++)
      if (sum[held[i]] <= sum[held[least]]) least = i;
    memmove(held + least, held + least + 1,
            (size_t)(n - least - 1) * sizeof *held);
    n--;
  }
  return n;
}

/* The lane of query heads first.. goes through all steps but the last, behind
 * which everything is equal. */
static void literal(const rig_case *c, const char *spec, int lane, int first,
                    int heads, int budget) {
  int held[65], n = c->prompt_len;
  double sum[64];
  rig *r = rig_open(c, spec);
  for (int j = 0; j < n; j++) held[j] = j;
  for (int step = c->prompt_len; step < c->n_tokens; step++) {
    rig_to(r, step);
    if (step > c->prompt_len) held[n++] = step - 1;
    to_come(c, first, heads, step, sum);
    n = settle(budget, n, held, sum);
    held[n] = -1;
    rig_holds(r, lane, held);
  }
  rig_close(r);
}

TEST(literally) {
  rig_case c = RIG_SHAPE(4, 2, 8, 4, 60, 40);
  for (uint32_t seed = 50; seed < 53; seed++) {
    rig_data(&c, seed);
    for (int lane = 0; lane < 2; lane++)
      literal(&c, "oracle-evict:budget=9", lane, 2 * lane, 2, 9);
    for (int lane = 0; lane < 4; lane++)
      literal(&c, "oracle-evict:budget=7:group=query_head", lane, lane, 1, 7);
    rig_data_free(&c);
  }
}

/* --- no bound ---------------------------------------------------------------
 */

/* The exact mass that the last decode steps found in the lane. */
static double retained(const rig_case *c, const char *spec) {
  double p[64], mass = 0;
  uint32_t id[64];
  rig *r = rig_open(c, spec);
  for (int t = c->prompt_len; t < c->n_tokens; t++) {
    rig_to(r, t + 1);
    int n = rig_seen(r, 0, id);
    rig_exact(c, 0, t, NULL, p);
    for (int i = 0; i < n; i++) mass += p[id[i]];
  }
  rig_close(r);
  return mass;
}

/* Keys are unit vectors and logits the queries: 6 of the tokens that a row
 * looks at, which then have .98 of it or .49 each, and 0 of others. Token 1 has
 * three halves to come and token 0 one whole row, the next, so token 0 goes
 * after the prompt. Token 3, when it comes, has more than both and throws token
 * 1 out before its first row. tova keeps token 0 until then and retains row 2,
 * too. */
TEST(no_bound) {
  static const int looks[8][2] = {{0, 0}, {0, 0}, {0, 0}, {3, 3},
                                  {3, 3}, {1, 3}, {1, 3}, {1, 3}};
  float q[64] = {0}, k[64] = {0};
  rig_case c = rig_eight(2);
  for (int t = 0; t < 8; t++) {
    k[9 * t] = 1;
    for (int i = 0; i < 2; i++) q[8 * t + looks[t][i]] = 6;
  }
  c.d = 8;
  c.scale = 1;
  c.q = q;
  c.k = k;
  rig_keeps(&c, "oracle-evict:budget=1", 0, (int[]){1, -1});
  double ruler = retained(&c, "oracle-evict:budget=1");
  double other = retained(&c, "tova:budget=1");
  assert_true(other > ruler + .9 && other < ruler + 1);
}

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 16, 8, 60, 30),
    {{"oracle-evict:budget=10", .at_most = 10},
     {"oracle-evict:budget=1", .at_most = 1},
     {"oracle-evict:budget=10:group=query_head", .at_most = 10},
     {"oracle-evict:budget=10", .at_most = 10, .half = true},
     {"oracle-evict:budget=10", .at_most = 10, .prompt_len = 3},
     {"oracle-evict:budget=60", .dense = true},
     {"oracle-evict:budget=60:group=query_head", .dense = true},
     {"oracle-evict:budget=10",
      .unlike = "oracle-evict:budget=10:group=query_head"}}};

/* 3 query heads and 1,398,102 rows to come are 4,194,306 probabilities. */
TEST(too_long) {
  rig_case c = rig_eight(6);
  c.heads = 3;
  c.n_tokens = 1398102 + 6;
  rig_law_refused(&c, "oracle-evict:budget=4", KV_REFUSED, "4194306",
                  "4194304");
}

RIG_TESTS(oracle_evict, RIG_CASE(worked), RIG_CASE(literally),
          RIG_CASE(no_bound), RIG_LAWS(laws), RIG_CASE(too_long))
