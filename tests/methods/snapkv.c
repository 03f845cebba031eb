/* SPDX-License-Identifier: Apache-2.0
 *
 * SnapKV. The worked case: eight keys, window 2, capacity 4, kernel 3, head A
 * with the last queries (0,1) (2,0), head B with (1,-2) (-1,2). The votes were
 * worked out from the definition in binary64:
 *   A sum .208370 .191313 .692775 .086457 .453689 .070354
 *   B sum .257412 .183326 .155387 .134347 .327851 .493597
 * from which every choice below follows by pooling and the tie rule.
 * Settling again while decoding is replayed plainly beside the method.
 */
#include "tests/support/rig.h"
#include <string.h>

static rig_case two_heads(float q[32]) {
  static const float b[4] = {1, -2, -1, 2};
  rig_case c = rig_eight(8);
  memset(q, 0, 32 * sizeof *q);
  memcpy(q, rig_query8, sizeof rig_query8);
  memcpy(q + 28, b, sizeof b);
  c.heads = 2;
  c.q = q;
  return c;
}

static void holds(const rig_case *c, const char *more, int lane,
                  const int *ids) {
  char spec[128] = "snapkv:budget=4:window=2";
  strcat(spec, more);
  rig *r = rig_open(c, spec);
  rig_holds(r, lane, ids);
  rig_close(r);
}

static void worked_head(void **state) {
  rig_case c = rig_eight(8);
  float q[32];
  (void)state;
  holds(&c, ":kernel=3", 0, (int[]){1, 2, 6, 7, -1}); /* 1, 2, 3 tie */
  holds(&c, ":kernel=3:pooling=avg", 0, (int[]){1, 3, 6, 7, -1});
  holds(&c, ":kernel=3:pooling=none", 0, (int[]){2, 4, 6, 7, -1});
  holds(&c, ":kernel=1", 0, (int[]){2, 4, 6, 7, -1});
  rig_case b = two_heads(q);
  b.heads = 1;
  b.q = q + 16;
  holds(&b, ":kernel=3", 0, (int[]){4, 5, 6, 7, -1});
  holds(&b, ":kernel=3:pooling=avg", 0, (int[]){4, 5, 6, 7, -1});
}

static void worked_group(void **state) {
  float q[32];
  rig_case c = two_heads(q);
  (void)state;
  static const char *const rule[] = {"mean", "sum", "max"};
  for (int i = 0; i < 3; i++) {
    char more[64] = ":kernel=3:group=";
    strcat(more, rule[i]);
    holds(&c, more, 0, (int[]){1, 2, 6, 7, -1});
    strcat(more, ":pooling=avg");
    holds(&c, more, 0, (int[]){1, 3, 6, 7, -1});
  }
  /* mean: .424081 and .390770 lead; max: .692775 and .493597 */
  holds(&c, ":kernel=1:group=mean", 0, (int[]){2, 4, 6, 7, -1});
  holds(&c, ":kernel=1:group=max", 0, (int[]){2, 5, 6, 7, -1});
  holds(&c, ":kernel=3:group=query_head", 0, (int[]){1, 2, 6, 7, -1});
  holds(&c, ":kernel=3:group=query_head", 1, (int[]){4, 5, 6, 7, -1});
}

/* --- settling again ------------------------------------------------------ */

typedef struct plain {
  int budget, window, every;
  bool in[64];
  double vote[64];
} plain;

static void vote(plain *s, const rig_case *c, int t, const bool *in) {
  double p[64];
  for (int h = 0; h < c->heads; h++) {
    rig_exact(c, h, t, in, p);
    for (int j = 0; j <= t; j++) s->vote[j] += p[j];
  }
}

static void settle(plain *s, int n) {
  int held = 0;
  for (int j = 0; j < n; j++) held += s->in[j];
  for (; held > s->budget; held--) {
    int worst = -1;
    for (int j = 0; j < n - s->window; j++)
      if (s->in[j] && (worst < 0 || s->vote[j] <= s->vote[worst])) worst = j;
    s->in[worst] = false;
  }
  memset(s->vote, 0, sizeof s->vote);
}

static void replay_plain(const rig_case *c, plain *s, const char *spec) {
  int p = c->prompt_len, ids[65];
  memset(s->in, true, sizeof s->in);
  for (int t = p - s->window; t < p; t++) vote(s, c, t, NULL);
  settle(s, p);
  rig *r = rig_open(c, spec);
  for (int step = p;; step++) {
    int n = 0, since = (step - p) % s->every;
    rig_to(r, step);
    if (step > p) {
      if (since == 0 || since > s->every - s->window)
        vote(s, c, step - 1, s->in);
      if (since == 0) settle(s, step);
    }
    for (int j = 0; j < step; j++)
      if (s->in[j]) ids[n++] = j;
    ids[n] = -1;
    rig_holds(r, 0, ids);
    if (step == c->n_tokens) break;
  }
  rig_close(r);
}

static void again(void **state) {
  rig_case c = {.heads = 2,
                .kv_heads = 1,
                .d = 8,
                .d_v = 4,
                .n_tokens = 60,
                .prompt_len = 20};
  (void)state;
  for (uint32_t seed = 30; seed < 33; seed++) {
    rig_data(&c, seed);
    replay_plain(&c, &(plain){10, 4, 7, {0}, {0}},
                 "snapkv:budget=10:window=4:kernel=1:grow=no:every=7");
    replay_plain(&c, &(plain){24, 3, 3, {0}, {0}},
                 "snapkv:budget=24:window=3:kernel=1:grow=no:every=3");
    replay_plain(&c, &(plain){9, 1, 1, {0}, {0}},
                 "snapkv:budget=9:window=1:kernel=1:grow=no:every=1");
    rig_data_free(&c);
  }
}

/* --- laws ---------------------------------------------------------------- */

static int bounded(const rig_case *c, int step, const void *ctx) {
  (void)ctx; /* budget 10, every 8 */
  return 10 + (step - c->prompt_len) % 8;
}

static void laws(void **state) {
  rig_case c = {.heads = 4,
                .kv_heads = 2,
                .d = 16,
                .d_v = 8,
                .n_tokens = 50,
                .prompt_len = 25};
  (void)state;
  rig_data(&c, 10);
  rig_law(&c, "snapkv:budget=10", rig_grown, &(int){10});
  rig_law(&c, "snapkv:budget=30", rig_grown, &(int){30});
  rig_law(&c, "snapkv:budget=1", rig_grown, &(int){1});
  rig_law(&c, "snapkv:budget=10:group=max", rig_grown, &(int){10});
  rig_law(&c, "snapkv:budget=10:group=query_head", rig_grown, &(int){10});
  rig_law(&c, "snapkv:budget=10:grow=no:every=8", bounded, NULL);
  rig_law(&c, "snapkv:budget=10:grow=no:every=8:group=max", bounded, NULL);
  rig_law_dense(&c, "snapkv:budget=25");
  rig_law_dense(&c, "snapkv:budget=50:grow=no:every=30");
  c.prompt_len = 1;
  rig_law(&c, "snapkv:budget=10", rig_grown, &(int){10});
  c.prompt_len = 3; /* shorter than the window */
  rig_law(&c, "snapkv:budget=20:window=8", rig_grown, &(int){20});
  rig_law(&c, "snapkv:budget=10:window=8:grow=no:every=8", bounded, NULL);
  rig_data_free(&c);
}

static void opening(void **state) {
  rig_case c = rig_eight(8);
  kv_needs n;
  kv_err e;
  (void)state;
  assert_int_equal(rig_try(&c, "snapkv:budget=6", &n, &e), KV_OK);
  assert_int_equal(n.prompt_rows, 3); /* window = 6 div 2 */
  assert_int_equal(n.every, 0);
  assert_int_equal(n.meta[0].bytes, 0);
  assert_int_equal(rig_try(&c, "snapkv:budget=500", &n, &e), KV_OK);
  assert_int_equal(n.prompt_rows, 8); /* 32, as far as there are any */
  assert_int_equal(rig_try(&c, "snapkv:budget=4:grow=no", &n, &e), KV_OK);
  assert_int_equal(n.every, 128);
  assert_int_equal(n.meta[0].bytes, 64); /* all 8 entries, 8 bytes each */
  assert_int_equal(
      rig_try(&c, "snapkv:budget=4:grow=no:every=2:window=2", &n, &e), KV_OK);
  assert_int_equal(n.meta[0].bytes, 48); /* 4 + 2 entries */
  rig_law_refused(&c, "snapkv", KV_USAGE, "snapkv", "budget");
  rig_law_refused(&c, "snapkv:budget=4:window=5", KV_REFUSED, "window=5", "4");
  rig_law_refused(&c, "snapkv:budget=4:kernel=4", KV_USAGE, "kernel=4", "5");
  rig_law_refused(&c, "snapkv:budget=4:every=9", KV_REFUSED, "every=9",
                  "grow=yes");
  rig_law_refused(&c, "snapkv:budget=8:window=4:grow=no:every=3", KV_REFUSED,
                  "every=3", "window=4");
}

int kv_test_snapkv(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(worked_head), cmocka_unit_test(worked_group),
      cmocka_unit_test(again), cmocka_unit_test(laws),
      cmocka_unit_test(opening)};
  return cmocka_run_group_tests_name("snapkv", tests, NULL, NULL);
}
