/* SPDX-License-Identifier: Apache-2.0
 *
 * Hard-KV. Whole replays are compared with a plain account in binary64, written
 * from the definition (tests/support/hard_account.h): which entries are read at
 * every step, which are held, and the keys of those that were merged. Its parts
 * are tested by tests/ref/check_cascade.c.
 */
#include "ref/kernels/kernels.h"
#include "ref/lane/lane.h"
#include "ref/parts/cascade.h"
#include "tests/support/bundled.h"
#include "tests/support/hard_account.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void same_keys(const rig_case *c, const rig *r, const hard_store *s) {
  float key[HARD_WIDEST];
  for (int i = 0; i < s->n; i++) {
    kv_lane_key(rig_lane(r, 0), i, key);
    for (int x = 0; x < c->d; x++)
      if (!(fabs((double)key[x] - s->of[i].key[x]) <= 1e-5))
        fail_msg("entry %d: key %.7f, want %.7f", i, (double)key[x],
                 s->of[i].key[x]);
  }
}

/* How often something was hidden, a lane rewritten, entries merged. */
typedef struct often {
  int masked, rewrites, merges;
} often;

static void replay_plain(const rig_case *c, hard_rule o, const char *spec,
                         often *how) {
  hard_store s = {.n = 0};
  int p = c->prompt_len;
  rig *r = rig_open(c, spec);
  for (int step = 1; step <= c->n_tokens; step++) {
    int saw[HARD_MOST + 1], held[HARD_MOST + 1], n = 0, before;
    hard_enter(c, &s, step - 1);
    for (int i = 0; i < s.n; i++)
      if (s.of[i].read) saw[n++] = s.of[i].id;
    saw[n] = -1;
    how->masked += n < s.n;
    if (step > p) {
      rig_to(r, step);
      rig_saw(r, 0, saw);
    }
    before = s.n;
    if (step == p || (step > p && (step - p) % o.every == 0))
      hard_compress(c, &o, step, &s);
    how->rewrites += s.n < before;
    for (int i = 0; i < s.n; i++) held[i] = s.of[i].id;
    held[s.n] = -1;
    if (step < p) continue;
    rig_holds(r, 0, held);
    same_keys(c, r, &s);
    how->merges += rig_lane(r, 0)->rewritten;
  }
  rig_close(r);
}

TEST(replays) {
  rig_case c = RIG_SHAPE(3, 1, 6, 4, 100, 33);
  static const char *const spec =
      "hardkv:upper=40:window=7:every=9:kernel=3:sinks=2:local=5:p=0.7";
  static const struct {
    const char *more;
    bool pooled, bisect, rkv, merges, shipped, read;
  } of[] = {
      {"", true, true, false, false, false, false},
      {":calibrate=none", true, false, false, false, false, false},
      {":calibrate=none:adapter=vanilla", false, false, false, false, false,
       false},
      {":adapter=rkv", false, true, true, false, false, false},
      {":adapter=rkv:redundant=read", false, true, true, false, false, true},
      {":adapter=rkv:redundant=read:calibrate=none:condensed=merge", false,
       false, true, true, false, true},
      {":condensed=merge", true, true, false, true, false, false},
      {":variant=code", true, false, false, false, true, false},
      {":variant=code:calibrate=bisect", true, true, false, false, true, false},
      {":variant=code:adapter=rkv", false, false, true, false, true, false},
      {":variant=code:adapter=rkv:redundant=read", false, false, true, false,
       true, false},
      {":variant=code:adapter=rkv:calibrate=bisect", false, true, true, false,
       true, false}};
  often how = {0};
  for (uint32_t seed = 1; seed < 4; seed++)
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
      hard_rule o = {.upper = 40,
                     .lower = 20,
                     .every = 9,
                     .window = 7,
                     .sinks = 2,
                     .local = 5,
                     .kernel = 3,
                     .p = .7};
      char text[256];
      rig_data(&c, seed);
      o.pooled = of[i].pooled, o.bisect = of[i].bisect, o.rkv = of[i].rkv;
      o.merges = of[i].merges, o.shipped = of[i].shipped, o.read = of[i].read;
      snprintf(text, sizeof text, "%s%s", spec, of[i].more);
      replay_plain(&c, o, text, &how);
      rig_data_free(&c);
    }
  assert_true(how.masked > 50 && how.rewrites > 30 && how.merges > 30);
}

/* --- laws ---------------------------------------------------------------- */

static int bounded(const rig_case *c, int step, const void *ctx) {
  (void)ctx; /* upper 12, every 8 */
  return 12 + (step - c->prompt_len) % 8;
}

TEST(laws) {
  rig_case c = RIG_SHAPE(4, 2, 16, 8, 50, 25);
  static const char *const more[] = {
      "",
      ":adapter=vanilla",
      ":calibrate=gradient",
      ":temperatures=every:p=0.5",
      ":adapter=rkv",
      ":condensed=merge",
      ":adapter=score:score=tova",
      ":adapter=score:score=keydiff",
      ":adapter=score",
      ":adapter=score:score=h2o:condensed=merge",
      ":variant=code",
      ":adapter=rkv:redundant=read",
      ":variant=code:calibrate=bisect:condensed=merge"};
  static const int group[] = {1, 4, 7, 8};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    char spec[128];
    c.heads = c.kv_heads * group[i % 4];
    rig_data(&c, 10);
    snprintf(spec, sizeof spec, "hardkv:upper=12:window=4:every=8%s", more[i]);
    rig_law(&c, spec, bounded, NULL);
    rig_data_free(&c);
  }
  c.heads = 4;
  rig_data(&c, 10);
  rig_law(&c, "hardkv:upper=2:window=1:sinks=1:every=1", rig_at_most,
          &(int){2});
  rig_law_dense(&c, "hardkv:upper=50:p=1:calibrate=none");
  rig_law_dense(&c, "hardkv:upper=50:lower=50:p=0.1");
  c.prompt_len = 3; /* shorter than the window */
  rig_law(&c, "hardkv:upper=12:window=6:every=8:p=0.6", bounded, NULL);
  rig_data_free(&c);
}

/* What was hidden stays hidden until it is gone; sinks and the dense tier are
 * read; a choice has tokens in every compression. */
TEST(masks) {
  rig_case c = RIG_SHAPE(2, 1, 6, 4, 120, 30);
  bool hidden[HARD_MOST] = {false};
  int was = 0;
  rig_data(&c, 3);
  rig *r = rig_open(&c, "hardkv:upper=90:lower=9:window=6:every=5:p=0.5");
  for (int step = c.prompt_len; step <= c.n_tokens; step++) {
    rig_to(r, step);
    const kv_lane *l = rig_lane(r, 0);
    for (int i = 0; i < l->n; i++) {
      bool now = kv_class_of(l, i) == KV_CASCADE_HIDDEN;
      int token = (int)l->id[i];
      assert_true(now || !hidden[token]);
      assert_false(now && (token < 1 || token >= step - 6));
      was += now && !hidden[token];
      hidden[token] = now;
    }
  }
  assert_true(was > 20);
  rig_close(r);
  rig_data_free(&c);
}

/* What a lane was rewritten to is what was read of it, in its order: as long as
 * upper cuts nothing, a lane whose masks clear bits has the same outputs, to
 * the bit, as one that is rewritten each time. */
TEST(rewriting) {
  rig_case c = RIG_SHAPE(4, 2, 16, 8, 120, 60);
  static const char *const more = "window=4:every=10:lower=9:p=0.2";
  uint32_t held[HARD_MOST], read[HARD_MOST];
  char spec[2][96];
  int rewrites = 0, moved = 0;
  rig_data(&c, 5);
  snprintf(spec[0], sizeof spec[0], "hardkv:upper=26:%s", more);
  snprintf(spec[1], sizeof spec[1], "hardkv:upper=400:%s", more);
  rig *moves = rig_open(&c, spec[0]), *masks = rig_open(&c, spec[1]);
  for (int step = c.prompt_len + 1; step <= c.n_tokens; step++) {
    int before = rig_lane(moves, 0)->n, n = 0;
    rig_to(moves, step);
    rig_to(masks, step);
    for (int h = 0; h < c.heads; h++) {
      float lse[2] = {rig_lse(moves, h), rig_lse(masks, h)};
      assert_memory_equal(&lse[0], &lse[1], sizeof *lse);
      assert_memory_equal(rig_out(moves, h), rig_out(masks, h),
                          (size_t)c.d_v * sizeof(float));
    }
    const kv_lane *whole = rig_lane(masks, 0);
    assert_int_equal(whole->n, step);
    for (int i = 0; i < whole->n; i++)
      if (kv_class_of(whole, i) == KV_CASCADE_READ) read[n++] = whole->id[i];
    if (rig_lane(moves, 0)->n > before) continue;
    rewrites++;
    moved += rig_ids(moves, 0, held);
    assert_int_equal(rig_lane(moves, 0)->n, n); /* none is hidden there */
    assert_memory_equal(held, read, (size_t)n * sizeof *held);
  }
  assert_true(rewrites >= 3 && moved > rewrites);
  rig_close(moves);
  rig_close(masks);
  rig_data_free(&c);
}

/* --- a long answer ------------------------------------------------------- */

/* Rows of a recorded layer as floats. */
static float *widened(kv_dtype type, const void *rows, size_t n) {
  float *out = malloc(n * sizeof *out);
  assert_non_null(out);
  kv_kernels_best()->widen(type, rows, n, out);
  return out;
}

/* Steps at which a lane was hidden from or rewritten. */
static int triggers(const rig_case *c, const char *spec, int upper) {
  int n = 0, hidden = 0;
  rig *r = rig_open(c, spec);
  const kv_lane *l = rig_lane(r, 0);
  for (int step = c->prompt_len + 1; step <= c->n_tokens; step++) {
    int before = l->n, now = 0;
    rig_to(r, step);
    for (int i = 0; i < l->n; i++)
      now += kv_class_of(l, i) == KV_CASCADE_HIDDEN;
    if (l->n <= before || now != hidden) {
      assert_int_equal((step - c->prompt_len) % 128, 0);
      assert_true(l->n <= upper);
      n++;
    }
    hidden = now;
  }
  rig_close(r);
  return n;
}

/* On the reference alone: others are held to its journal, and 128 queries take
 * the executor minutes. */
TEST(long_answer) {
  if (strcmp(rig_backend()->name, "ref") != 0) skip();
  kv_trace *t = bundled_open("generated_1500.safetensors");
  const kv_shape *s = &t->shape;
  const kv_layer_data *l = &t->layer[0].data;
  size_t rows = (size_t)s->n_tokens, d = (size_t)s->d, d_v = (size_t)s->d_v;
  size_t heads = (size_t)kv_group(s); /* of the first KV head alone */
  float *q = widened(l->q_dtype, l->q, heads * rows * d);
  float *k = widened(s->dtype, l->k, rows * d);
  float *v = widened(s->dtype, l->v, rows * d_v);
  rig_case c =
      RIG_SHAPE((int)heads, 1, s->d, s->d_v, s->n_tokens, s->prompt_len,
                .scale = s->scale, .q = q, .k = k, .v = v);
  assert_true(triggers(&c, "hardkv:upper=256", 256) >= 10);
  free(q), free(k), free(v);
  kv_trace_close(t);
}

/* Bytes: of a mask of one bit a token, of the ring and its temperatures. */
static const rig_laws refusals = {
    RIG_SHAPE(1, 1, 2, 8, 8, 8),
    {{"hardkv:upper=9:window=9", KV_REFUSED, .says = {"last 9", "upper=9"}},
     {"hardkv:upper=9:window=3:local=10", KV_REFUSED,
      .says = {"last 10", "upper=9"}},
     {"hardkv:upper=4:kernel=4", KV_USAGE, .says = {"kernel=4", "5"}},
     {"hardkv:upper=4:p=0", KV_USAGE,
      .says = {"p=0 is not in range", "the nearest is p=1e-06"}},
     {"hardkv:upper=4:p=-1", KV_USAGE,
      .says = {"p=-1", "the nearest is p=1e-06"}},
     {"hardkv:upper=4:p=1.1", KV_USAGE, .says = {"p", "1"}},
     {"hardkv:upper=4:lower=5", KV_USAGE, .says = {"lower=5", "upper=4"}},
     {"hardkv:upper=4:adapter=zsmerge", KV_USAGE,
      .says = {"adapter", "zsmerge"}},
     {"hardkv:upper=4:adapter=score:score=zsmerge", KV_USAGE,
      .says = {"score", "zsmerge"}},
     {"hardkv:upper=4+zsmerge:budget=4", KV_REFUSED,
      .says = {"zsmerge codes nothing", "hardkv"}},
     {"zsmerge:budget=4+hardkv:upper=4", KV_REFUSED,
      .says = {"hardkv codes nothing", "zsmerge"}},
     {"hardkv:upper=4:condensed=merge+kivi", KV_REFUSED,
      .says = {"hardkv merges", "drops"}},
     {"hardkv:upper=40:adapter=score:window=16:every=9", KV_REFUSED,
      .says = {"every=9", "window=16"}}}};

TEST(opening) {
  rig_case c = rig_eight(8);
  kv_needs n = rig_needs(&c, "hardkv:upper=400");
  assert_int_equal(n.every, 128);
  assert_int_equal(n.meta[0].page, 8);
  assert_int_equal(n.meta[0].bytes, 1);
  assert_int_equal(n.meta[1].bytes, 128 * 2 * 4); /* window, d */
  assert_int_equal(n.meta[2].bytes, 128 * 4);
  assert_false(n.merges);
  n = rig_needs(&c, "hardkv:upper=400:condensed=merge");
  assert_true(n.merges);
  n = rig_needs(&c, "hardkv:upper=400:variant=code");
  assert_int_equal(n.message, 128 * 4);
  rig_needs(&c, "hardkv:upper=400:p=1e-06");
}

RIG_TESTS(hardkv, RIG_CASE(replays), RIG_CASE(laws), RIG_CASE(masks),
          RIG_CASE(rewriting), RIG_CASE(long_answer), RIG_LAWS(refusals),
          RIG_CASE(opening))
