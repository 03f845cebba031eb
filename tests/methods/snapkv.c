/* SPDX-License-Identifier: Apache-2.0
 *
 * SnapKV. The worked case: eight keys, window 2, capacity 4, kernel 3, head A
 * with the last queries (0,1) (2,0), head B with (1,-2) (-1,2). The votes were
 * worked out from the definition in binary64:
 *   A sum .208370 .191313 .692775 .086457 .453689 .070354
 *   B sum .257412 .183326 .155387 .134347 .327851 .493597
 * from which every choice below follows by pooling and the tie rule.
 * Compression again while decoding is worked by hand on twelve tokens whose
 * keys lie on a line, and replayed plainly beside the method.
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
  rig_keeps(c, spec, lane, ids);
}

TEST(worked_head) {
  rig_case c = rig_eight(8);
  float q[32];
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

TEST(worked_group) {
  float q[32];
  rig_case c = two_heads(q);
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

/* Head A with the first or more of the last tokens held: the candidates, and
 * what pooling sees, lie between. */
TEST(worked_ends) {
  rig_case c = rig_eight(8);
  holds(&c, ":kernel=1:sinks=1", 0, (int[]){0, 2, 6, 7, -1});
  holds(&c, ":kernel=3:sinks=1", 0, (int[]){0, 1, 6, 7, -1});
  /* sums of 1..5: .884088 .970545 1.232921 .610500 .524043 */
  holds(&c, ":kernel=3:pooling=avg:sinks=1", 0, (int[]){0, 3, 6, 7, -1});
  holds(&c, ":kernel=1:sinks=2", 0, (int[]){0, 1, 6, 7, -1});
  holds(&c, ":kernel=1:recent=3", 0, (int[]){2, 5, 6, 7, -1});
  holds(&c, ":kernel=1:sinks=1:recent=3", 0, (int[]){0, 5, 6, 7, -1});
}

/* Head A in chunks of seven, whose last has one token. The first keeps 0 2 4 5
 * 6 by the sums of rows 4..6, of 0..3 .538533 .342233 .910158 .190567; then
 * rows 5..7 vote, of what is held: 0 .343946, 2 1.198942, 4 .994906. Row 7
 * alone says .134853 of 0 as of 4. */
TEST(worked_chunks) {
  rig_case c = rig_eight(8);
  rig_keeps(&c, "snapkv:budget=5:window=3:kernel=1:prefill=7", 0,
            (int[]){2, 4, 5, 6, 7, -1});
  rig_keeps(&c, "snapkv:budget=5:window=3:kernel=1:prefill=8", 0,
            (int[]){2, 4, 5, 6, 7, -1});
}

/* --- compression again --------------------------------------------------- */

/* Keys (x, 0) and queries (s, 0): of a query of +1 the larger x have the larger
 * share, of -1 the smaller. Sink 0, two last tokens, two by score. */
typedef struct again_at {
  const char *more;
  int prompt;
  struct {
    int step, kept[13];
  } at[6];
} again_at;

static const again_at traces[] = {
    /* compresses at 5 + 2, by queries 7, 9 and 11: - + - */
    {"voters=1:grow=past_more",
     6,
     {{6, {0, 1, 3, 4, 5, -1}},
      {7, {0, 1, 3, 4, 5, 6, -1}},
      {8, {0, 4, 5, 6, 7, -1}},
      {9, {0, 4, 5, 6, 7, 8, -1}},
      {10, {0, 4, 6, 8, 9, -1}},
      {12, {0, 4, 9, 10, 11, -1}}}},
    /* queries 6 and 7, + and -: of 1 3 4 5 .267 .144 .095 .275 */
    {"voters=2:grow=past_more", 6, {{8, {0, 1, 5, 6, 7, -1}}}},
    /* twice 2 is less than the budget: at every step */
    {"voters=1:grow=twice_past",
     6,
     {{6, {0, 1, 3, 4, 5, -1}},
      {7, {0, 1, 3, 5, 6, -1}},
      {8, {0, 3, 5, 6, 7, -1}}}},
    {"voters=1:grow=twice",
     6,
     {{10, {0, 1, 3, 4, 5, 6, 7, 8, 9, -1}}, {11, {0, 6, 8, 9, 10, -1}}}},
    {"voters=1:grow=no:every=4",
     6,
     {{9, {0, 1, 3, 4, 5, 6, 7, 8, -1}}, {10, {0, 1, 6, 8, 9, -1}}}},
    /* a short prompt: untouched at 6, one more than the budget */
    {"voters=1:grow=past_more",
     3,
     {{3, {0, 1, 2, -1}},
      {6, {0, 1, 2, 3, 4, 5, -1}},
      {7, {0, 1, 3, 5, 6, -1}},
      {8, {0, 1, 3, 5, 6, 7, -1}},
      {9, {0, 3, 5, 7, 8, -1}}}}};

TEST(worked_again) {
  static const float x[12] = {1, 5, 2, 4, 3, 0, 6, -1, 7, -2, 8, 9};
  static const float s[12] = {1, 1, 1, 1, 1, 1, 1, -1, -1, 1, 1, -1};
  float q[24] = {0}, k[24] = {0};
  rig_case c = RIG_SHAPE(1, 1, 2, 2, 12, 0, .q = q, .k = k, .v = k);
  for (int i = 0; i < 12; i++) {
    k[2 * i] = x[i];
    q[2 * i] = s[i];
  }
  for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
    char spec[128] = "snapkv:budget=5:window=1:kernel=1:sinks=1:recent=2:";
    c.prompt_len = traces[i].prompt;
    rig *r = rig_open(&c, strcat(spec, traces[i].more));
    for (int j = 0; j < 6 && traces[i].at[j].step; j++) {
      rig_to(r, traces[i].at[j].step);
      rig_holds(r, 0, traces[i].at[j].kept);
    }
    rig_close(r);
  }
}

/* length: at which a lane compresses, 0: by steps. */
typedef struct plain {
  int budget, window, every, sinks, recent, length, voters;
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

static void compress(plain *s, int n) {
  int held = 0;
  for (int j = 0; j < n; j++) held += s->in[j];
  for (; held > s->budget; held--) {
    int worst = -1;
    for (int j = s->sinks; j < n - s->recent; j++)
      if (s->in[j] && (worst < 0 || s->vote[j] <= s->vote[worst])) worst = j;
    s->in[worst] = false;
  }
  memset(s->vote, 0, sizeof s->vote);
}

/* Decode steps from `step` until the next compression. */
static int left(const plain *s, int past, int step) {
  int held = 0;
  for (int j = 0; j < step; j++) held += s->in[j];
  return s->length ? s->length - held : (s->every - past % s->every) % s->every;
}

static void replay_plain(const rig_case *c, plain *s, const char *spec) {
  int p = c->prompt_len, ids[65];
  memset(s->in, true, sizeof s->in);
  for (int t = p - s->window; t < p; t++) vote(s, c, t, NULL);
  compress(s, p);
  rig *r = rig_open(c, spec);
  for (int step = p;; step++) {
    int n = 0, more = left(s, step - p, step);
    rig_to(r, step);
    if (step > p) {
      if (more < s->voters) vote(s, c, step - 1, s->in);
      if (more == 0) compress(s, step);
    }
    for (int j = 0; j < step; j++)
      if (s->in[j]) ids[n++] = j;
    ids[n] = -1;
    rig_holds(r, 0, ids);
    if (step == c->n_tokens) break;
  }
  rig_close(r);
}

TEST(again) {
  rig_case c = RIG_SHAPE(2, 1, 8, 4, 60, 20);
  for (uint32_t seed = 30; seed < 33; seed++) {
    rig_data(&c, seed);
    replay_plain(&c, &(plain){10, 4, 7, 0, 4, 0, 4, {0}, {0}},
                 "snapkv:budget=10:window=4:kernel=1:grow=no:every=7");
    replay_plain(&c, &(plain){24, 3, 3, 0, 3, 0, 3, {0}, {0}},
                 "snapkv:budget=24:window=3:kernel=1:grow=no:every=3");
    replay_plain(&c, &(plain){9, 1, 1, 0, 1, 0, 1, {0}, {0}},
                 "snapkv:budget=9:window=1:kernel=1:grow=no:every=1");
    replay_plain(
        &c, &(plain){14, 3, 0, 2, 4, 22, 2, {0}, {0}},
        "snapkv:budget=14:window=3:kernel=1:grow=past_more:sinks=2:recent=4:"
        "voters=2");
    replay_plain(&c, &(plain){12, 3, 0, 1, 3, 16, 3, {0}, {0}},
                 "snapkv:budget=12:window=3:kernel=1:grow=twice_past:"
                 "sinks=1");
    replay_plain(&c, &(plain){25, 3, 0, 0, 3, 50, 3, {0}, {0}},
                 "snapkv:budget=25:window=3:kernel=1:grow=twice");
    rig_data_free(&c);
  }
}

/* --- laws ---------------------------------------------------------------- */

static const rig_laws laws = {
    RIG_SHAPE(4, 2, 16, 8, 50, 25),
    {{"snapkv:budget=10", .grown = 10},
     {"snapkv:budget=30", .grown = 30},
     {"snapkv:budget=1", .grown = 1},
     {"snapkv:budget=10:group=max", .grown = 10},
     {"snapkv:budget=10:group=query_head", .grown = 10},
     {"snapkv:budget=10:grow=no:every=8", .at_most = 10, .every = 8},
     {"snapkv:budget=10:grow=no:every=8:group=max", .at_most = 10, .every = 8},
     /* of 10, 6 are the ends: 4 more, and 10 again */
     {"snapkv:budget=10:window=3:sinks=2:recent=4:grow=past_more:"
      "group=query_head:voters=2",
      .at_most = 10, .every = 4},
     {"snapkv:budget=25", .dense = true},
     {"snapkv:budget=25:sinks=4", .dense = true},
     {"snapkv:budget=25:grow=twice:sinks=1", .dense = true},
     {"snapkv:budget=50:grow=no:every=30", .dense = true},
     {"snapkv:budget=10", .grown = 10, .prompt_len = 1},
     {"snapkv:budget=20:window=8", .grown = 20, .prompt_len = 3},
     {"snapkv:budget=10:window=8:grow=no:every=8", .at_most = 10, .every = 8,
      .prompt_len = 3},
     {"snapkv:budget=4:window=5", KV_REFUSED, .says = {"window=5", "4"}},
     {"snapkv:budget=4:kernel=4", KV_USAGE, .says = {"kernel=4", "5"}},
     {"snapkv:budget=4:every=9", KV_REFUSED, .says = {"every=9", "grow=yes"}},
     {"snapkv:budget=8:window=4:grow=no:every=3", KV_REFUSED,
      .says = {"every=3", "window=4"}},
     {"snapkv:budget=4:sinks=5", KV_REFUSED, .says = {"sinks=5", "4"}},
     {"snapkv:budget=4:sinks=4", KV_REFUSED, .says = {"sinks", "=5"}},
     {"snapkv:budget=8:window=4:recent=3", KV_REFUSED,
      .says = {"recent=3", "window=4"}},
     {"snapkv:budget=8:voters=1", KV_REFUSED, .says = {"voters", "grow=yes"}},
     {"snapkv:budget=8:grow=no:window=2:voters=3", KV_REFUSED,
      .says = {"voters=3", "recent"}},
     {"snapkv:budget=8:grow=no:window=2:voters=2:every=1", KV_REFUSED,
      .says = {"every=1", "voters=2"}},
     {"snapkv:budget=8:grow=twice:every=9", KV_REFUSED,
      .says = {"every", "length"}}}};

TEST(opening) {
  rig_case c = rig_eight(8);
  kv_needs n = rig_needs(&c, "snapkv:budget=6");
  assert_int_equal(n.prompt_rows, 3); /* window = 6 div 2 */
  assert_int_equal(n.every, 0);
  assert_int_equal(n.meta[0].bytes, 0);
  n = rig_needs(&c, "snapkv:budget=500");
  assert_int_equal(n.prompt_rows, 8); /* 32, as far as there are any */
  n = rig_needs(&c, "snapkv:budget=4:grow=no");
  assert_int_equal(n.every, 128);
  assert_int_equal(n.meta[0].bytes, 64); /* all 8 entries, 8 bytes each */
  n = rig_needs(&c, "snapkv:budget=4:grow=no:every=2:window=2");
  assert_int_equal(n.meta[0].bytes, 48); /* 4 + 2 entries */
  n = rig_needs(&c, "snapkv:budget=4:grow=past_more:sinks=1");
  assert_int_equal(n.every, 1);
  assert_int_equal(n.prompt_rows, 1);    /* (4 - 1) div 2 */
  assert_int_equal(n.meta[0].bytes, 48); /* 4 + 2 entries */
}

RIG_TESTS(snapkv, RIG_CASE(worked_head), RIG_CASE(worked_group),
          RIG_CASE(worked_ends), RIG_CASE(worked_chunks),
          RIG_CASE(worked_again), RIG_CASE(again), RIG_LAWS(laws),
          RIG_CASE(opening))
