/* SPDX-License-Identifier: Apache-2.0
 *
 * KIVI. Which tokens are coded after every step follows from the rule alone
 * (keys in blocks of `residual`, values one by one); tokens that are not are
 * read to the bit, coded ones within half a step of their group's range; all
 * stay; bytes are those of the published formula, metadata included. A
 * residual that holds everything gives dense. What the codes are is held by
 * check_format. Keys coded before their rotation: keys that only turn by their
 * position come back, and what stands at position 0 is not turned.
 */
#include "tests/support/rig.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_full(const kv_cell_ref *side, int i) {
  return side[i].format == KV_RAW;
}

TEST(when) {
  rig_case c = RIG_SHAPE(2, 1, 8, 6, 30, 11);
  rig_data(&c, 10);
  rig *r = rig_open(&c, "kivi:group=2:residual=4");
  for (int step = 11; step <= 30; step++) {
    rig_to(r, step);
    const kv_lane *l = rig_lane(r, 0);
    assert_int_equal(l->n, step);
    for (int i = 0; i < step; i++) {
      assert_int_equal(is_full(l->k, i), i >= step - step % 4);
      assert_int_equal(is_full(l->v, i), i >= step - 4);
    }
  }
  rig_close(r);
  rig_data_free(&c);
}

/* Half a step of the range among `n` values, and what rounding of scale and
 * minimum to fp16 adds. */
static double slack(int n, const float *x, int stride, int levels) {
  double lo = INFINITY, hi = -INFINITY;
  for (int i = 0; i < n; i++) {
    lo = fmin(lo, (double)x[i * stride]);
    hi = fmax(hi, (double)x[i * stride]);
  }
  return (hi - lo) / levels / 2 + (fabs(lo) + 3 * (hi - lo)) / 1024;
}

static void close_enough(const rig_case *c, const rig *r, int levels) {
  const kv_lane *l = rig_lane(r, 1);
  const float *k = c->k + c->n_tokens * c->d, *v = c->v + c->n_tokens * c->d_v;
  float row[64];
  int coded = 0;
  for (int i = 0; i < l->n; i++) {
    kv_lane_key(l, i, row);
    for (int x = 0; x < c->d; x++) {
      double off = fabs((double)row[x] - (double)k[i * c->d + x]);
      const float *group = k + i / 4 * 4 * c->d + x;
      assert_true(off <=
                  (is_full(l->k, i) ? 0 : slack(4, group, c->d, levels)));
      coded += off > 0;
    }
    kv_lane_value(l, i, row);
    for (int x = 0; x < c->d_v; x++) {
      double off = fabs((double)row[x] - (double)v[i * c->d_v + x]);
      int first = x / 4 * 4, n = c->d_v - first < 4 ? c->d_v - first : 4;
      const float *group = v + i * c->d_v + first;
      assert_true(off <= (is_full(l->v, i) ? 0 : slack(n, group, 1, levels)));
      coded += off > 0;
    }
  }
  assert_true(coded > l->n * 4);
}

TEST(errors) {
  rig_case c = RIG_SHAPE(2, 2, 12, 10, 50, 20);
  rig_data(&c, 11);
  for (int bits = 2; bits <= 4; bits += 2)
    for (int code = 0; code < 2; code++) {
      char spec[80];
      snprintf(spec, sizeof spec, "kivi:group=4:residual=8:bits=%d:variant=%s",
               bits, code ? "code" : "paper");
      rig *r = rig_open(&c, spec);
      rig_to(r, 45);
      close_enough(&c, r, (1 << bits) - 1);
      rig_close(r);
    }
  rig_data_free(&c);
}

/* d = 128, groups of 32: 96 bytes a coded token and head at 2 bits, 160 at 4,
 * as worked out from codes and fp16 pairs. */
TEST(bytes) {
  rig_case c = RIG_SHAPE(1, 1, 128, 128, 200, 192, .half = true);
  rig_data(&c, 12);
  for (int bits = 2; bits <= 4; bits += 2) {
    char spec[80];
    kv_bytes b = {0};
    snprintf(spec, sizeof spec, "kivi:residual=64:bits=%d", bits);
    rig *r = rig_open(&c, spec);
    rig_to(r, 199); /* keys: 192 coded, 7 full; values: 135 coded, 64 full */
    kv_lane_bytes(rig_lane(r, 0), &b);
    assert_int_equal(b.payload, (192 + 135) * 16 * bits + (7 + 64) * 256);
    assert_int_equal(b.metadata, (192 + 135) * 16);
    assert_int_equal(b.columns + b.side + b.slack, 0);
    rig_close(r);
  }
  rig_data_free(&c);
}

static void variants(void **state) {
  rig_case c = RIG_SHAPE(1, 1, 64, 64, 200, 150);
  (void)state;
  rig_data(&c, 13);
  for (int half = 0; half < 2; half++) {
    c.half = half;
    kv_layer_digests a = rig_replay(&c, "kivi");
    kv_layer_digests p = rig_replay(&c, "kivi:variant=paper");
    kv_layer_digests f = rig_replay(&c, "kivi:variant=code");
    assert_true(rig_same(&a.state, half ? &f.state : &p.state));
    assert_false(rig_same(&f.state, &p.state));
    assert_true(rig_same(&f.journal, &p.journal));
  }
  kv_layer_digests a = rig_replay(&c, "kivi:k_bits=4:v_bits=4");
  kv_layer_digests b = rig_replay(&c, "kivi:bits=4");
  assert_true(rig_same(&a.state, &b.state));
  rig_data_free(&c);
}

/* --- before RoPE --------------------------------------------------------- */

enum { TURNS = 24, PAIRS = 4 };

/* Keys that are -1 or 2 in every channel before their rotation, rotated by
 * the library's sine and cosine: two bits code them exactly where they are
 * turned back, and nothing else does. One pair turns by the token. */
static float *turned_keys(const float *inv_freq) {
  float *k = calloc((size_t)TURNS * 2 * PAIRS, sizeof *k);
  assert_non_null(k);
  for (int t = 0; t < TURNS; t++)
    for (int i = 0; i < PAIRS; i++) {
      double a = (t + i) % 2 ? 2 : -1, b = (t / 2 + i) % 2 ? -1 : 2;
      double angle = (double)((float)t * inv_freq[i]);
      k[t * 2 * PAIRS + i] = (float)(a * cos(angle) - b * sin(angle));
      k[t * 2 * PAIRS + i + PAIRS] = (float)(b * cos(angle) + a * sin(angle));
    }
  return k;
}

/* The largest error of a key of the lane, all of them read. */
static double worst_key(const rig *r, const float *k) {
  const kv_lane *l = rig_lane(r, 0);
  float is[2 * PAIRS];
  double worst = 0;
  for (int i = 0; i < l->n; i++) {
    kv_lane_key(l, i, is);
    for (int x = 0; x < 2 * PAIRS; x++) {
      double off =
          fabs((double)(is[x] - k[l->id[i] * 2 * PAIRS + (uint32_t)x]));
      worst = off > worst ? off : worst;
    }
  }
  return worst;
}

TEST(before_rope_worked) {
  static const float inv_freq[PAIRS] = {1, 0.5f, 0.1f, 0.01f};
  rig_case c = RIG_SHAPE(1, 1, 2 * PAIRS, 2 * PAIRS, TURNS + 1, TURNS,
                         .inv_freq = inv_freq);
  rig_data(&c, 15);
  float *k = turned_keys(inv_freq), *data = (float *)c.k;
  memcpy(data, k, (size_t)TURNS * 2 * PAIRS * sizeof *k);
  c.n_tokens = TURNS;
  c.prompt_len = TURNS - 1;
  rig *r = rig_open(&c, "kivi:rope=before:variant=paper:group=8:residual=8");
  rig_to(r, TURNS); /* all keys are coded */
  assert_true(worst_key(r, k) < 4e-6);
  rig_close(r);
  r = rig_open(&c, "kivi:rope=after:variant=paper:group=8:residual=8");
  rig_to(r, TURNS);
  assert_true(worst_key(r, k) > 0.1);
  rig_close(r);
  free(k);
  rig_data_free(&c);
}

/* Alone in its group a key is h of itself: at position 0 of the rotated one,
 * elsewhere of the one turned back. */
TEST(before_rope_at_zero) {
  static const float inv_freq[PAIRS] = {1, 0.5f, 0.1f, 0.01f};
  rig_case c =
      RIG_SHAPE(1, 1, 2 * PAIRS, 2 * PAIRS, 8, 4, .inv_freq = inv_freq);
  float before[2 * PAIRS], after[2 * PAIRS];
  rig_data(&c, 16);
  rig *b = rig_open(&c, "kivi:rope=before:group=1:residual=1");
  rig *a = rig_open(&c, "kivi:group=1:residual=1");
  rig_to(b, 7);
  rig_to(a, 7);
  for (int i = 0; i < 5; i++) {
    kv_lane_key(rig_lane(b, 0), i, before);
    kv_lane_key(rig_lane(a, 0), i, after);
    bool same = memcmp(before, after, sizeof after) == 0;
    assert_int_equal(same, i == 0);
  }
  rig_close(a);
  rig_close(b);
  rig_data_free(&c);
}

/* Turned back and forward a key is within 2^-21 of its largest pair. */
TEST(turning_is_close) {
  enum { D = 64, TOKENS = 4096 };
  float inv_freq[D / 2], key[D], was[D];
  kv_rope rope = {.inv_freq = inv_freq};
  kv_turns turns;
  for (int interleaved = 0; interleaved < 2; interleaved++) {
    rope.interleaved = interleaved;
    for (int i = 0; i < D / 2; i++)
      inv_freq[i] = (float)pow(10000, -2.0 * i / D);
    assert_int_equal(kv_turns_open(&rope, TOKENS, D, 0, &turns, NULL), KV_OK);
    for (uint32_t t = 0; t < TOKENS; t++) {
      for (int x = 0; x < D; x++)
        key[x] = was[x] = (float)sin((double)(t * 64 + (uint32_t)x) * 0.37) * 8;
      kv_turn_back(&turns, t, key);
      kv_turn_forth(&turns, t, key);
      if (t == 0) assert_memory_equal(key, was, sizeof was);
      for (int x = 0; x < D; x++)
        assert_true(fabs((double)(key[x] - was[x])) < 12 * 0x1p-21);
    }
    kv_turns_close(&turns);
  }
}

static const float turns[8] = {1,     0.5f,  0.25f, 0.1f,
                               0.05f, 0.01f, 1e-3f, 1e-4f};

/* Of the first dense one nothing is turned; of the others all tokens stay as
 * they came. */
static const rig_laws laws = {
    RIG_SHAPE(4, 2, 16, 8, 50, 20, .inv_freq = turns),
    {{.spec = "kivi:group=4:residual=8"},
     {.spec = "kivi:group=3:residual=3:k_bits=4"},
     {.spec = "kivi:group=1:residual=1:bits=4"},
     {.spec = "kivi:rope=before:group=4:residual=8"},
     {"kivi:rope=before", .dense = true},
     {"kivi", .dense = true},
     {"kivi:group=51", .dense = true},
     {"kivi:residual=100", KV_REFUSED, .says = {"residual=100", "group=32"}},
     {"kivi:bits=3", KV_USAGE, .says = {"bits=3", "4"}},
     {"kivi:k_bits=3", KV_USAGE, .says = {"k_bits=3", "4"}},
     {"kivi:group=4:residual=4", .prompt_len = 1},
     {"kivi:group=4:residual=4", .prompt_len = 1, .half = true}}};

RIG_TESTS(kivi, RIG_CASE(when), RIG_CASE(errors), RIG_CASE(bytes),
          RIG_CASE(variants), RIG_CASE(before_rope_worked),
          RIG_CASE(before_rope_at_zero), RIG_CASE(turning_is_close),
          RIG_LAWS(laws))
