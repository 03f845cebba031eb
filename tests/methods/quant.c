/* SPDX-License-Identifier: Apache-2.0
 *
 * Quant. Every entry but the last `residual` is stored in the formats asked
 * for, from the compression that finds it first; bytes are those of the
 * formula, metadata included; a side left raw is read to the bit. What the
 * codes are is held by check_named. An entry that is coded is coded again from
 * its codes, by the same verb: what LeanKV calls a demotion.
 */
#include "ref/formats/named.h"
#include "tests/support/rig.h"
#include <stdio.h>
#include <string.h>

TEST(when) {
  rig_case c = RIG_SHAPE(2, 1, 8, 6, 30, 11);
  rig_data(&c, 10);
  for (int residual = 0; residual < 5; residual += 2) {
    char spec[80];
    snprintf(spec, sizeof spec, "k8v4:residual=%d:groups=2", residual);
    rig *r = rig_open(&c, spec);
    for (int step = 11; step <= 30; step++) {
      rig_to(r, step);
      const kv_lane *l = rig_lane(r, 0);
      assert_int_equal(l->n, step);
      for (int i = 0; i < step; i++) {
        assert_int_equal(l->k[i].format == KV_RAW, i >= step - residual);
        assert_int_equal(l->v[i].format == KV_RAW, i >= step - residual);
      }
    }
    rig_close(r);
  }
  rig_data_free(&c);
}

/* Bytes of `coded` entries of 128 elements a side and of `full` ones in fp16,
 * of LeanKV's payload without scores and positions: codes, and a scale and a
 * minimum for each group. */
static int64_t formula(int k, int v, int groups, int coded, int full) {
  int64_t row = 128 * k / 8 + 128 * v / 8 + (k < 16 ? 4 * groups : 0) +
                (v < 16 ? 4 * groups : 0);
  return coded * row + full * 512;
}

TEST(bytes) {
  static const int bits[] = {16, 8, 4, 2, 1};
  rig_case c = RIG_SHAPE(1, 1, 128, 128, 24, 20, .half = true);
  rig_data(&c, 12);
  for (int i = 0; i < 25; i++) {
    int k = bits[i / 5], v = bits[i % 5], groups = 1 << i % 3;
    char spec[80];
    kv_bytes b = {0};
    snprintf(spec, sizeof spec, "k%dv%d:residual=4:groups=%d", k, v, groups);
    rig *r = rig_open(&c, spec);
    rig_to(r, 24);
    kv_lane_bytes(rig_lane(r, 0), &b);
    int coded = k == 16 && v == 16 ? 0 : 20;
    assert_int_equal(kv_bytes_total(&b),
                     formula(k, v, groups, coded, 24 - coded));
    rig_close(r);
  }
  assert_int_equal(formula(8, 4, 1, 1, 0), 200); /* 208 with 8 of its scores */
  assert_int_equal(formula(4, 2, 1, 1, 0), 104); /* 112 */
  rig_data_free(&c);
}

TEST(raw_side) {
  rig_case c = RIG_SHAPE(2, 1, 12, 10, 20, 9);
  float row[16];
  rig_data(&c, 13);
  for (int keys = 0; keys < 2; keys++) {
    rig *r = rig_open(&c, keys ? "quant:k=int2:v=raw" : "k16v2");
    rig_to(r, 20);
    const kv_lane *l = rig_lane(r, 0);
    bool off = false;
    for (int i = 0; i < l->n; i++) {
      assert_int_equal(l->k[i].format == KV_RAW, !keys);
      assert_int_equal(l->v[i].format == KV_RAW, keys);
      kv_lane_key(l, i, row);
      bool same = memcmp(row, c.k + i * c.d, (size_t)c.d * 4) == 0;
      off |= !same;
      if (!keys) assert_true(same);
      kv_lane_value(l, i, row);
      if (keys) assert_memory_equal(row, c.v + i * c.d_v, (size_t)c.d_v * 4);
    }
    assert_int_equal(off, keys);
    rig_close(r);
  }
  rig_data_free(&c);
}

/* int4 and its long form are one method, and kNvM with equal bits too. */
static void names(void **state) {
  static const char *const alike[][2] = {
      {"int4", "quant:k=int4:v=int4"},
      {"k4v4", "int4"},
      {"k8v4", "quant"},
      {"k2v8:residual=3", "quant:k=int2:v=int8:residual=3"},
      {"e4m3-int4", "quant:k=e4m3:v=int4"},
      {"raw-qserve4:groups=2", "quant:k=raw:v=qserve4:groups=2"},
      {"int8-int4", "k8v4"},
      {"dense+atom4-sym8", "quant:k=atom4:v=sym8"},
      {"dense+int2:groups=2", "int2:k_groups=2:v_groups=2"}};
  rig_case c = RIG_SHAPE(2, 1, 8, 8, 20, 9);
  (void)state;
  rig_data(&c, 14);
  for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
    kv_layer_digests a = rig_replay(&c, alike[i][0]);
    kv_layer_digests b = rig_replay(&c, alike[i][1]);
    assert_memory_equal(&a.output, &b.output, sizeof a.output);
    assert_memory_equal(&a.state, &b.state, sizeof a.state);
  }
  rig_data_free(&c);
}

static const float turns[4] = {1, 0.5f, 0.1f, 0.01f};
static const rig_laws laws = {
    RIG_SHAPE(4, 2, 8, 6, 40, 21, .inv_freq = turns),
    {{.spec = "int8"},
     {.spec = "int1:groups=2"},
     {.spec = "qserve4-atom4:groups=2"},
     {.spec = "k4v2:residual=7:v_groups=3:k_groups=4"},
     {.spec = "int4:rope=before"},
     {.spec = "atom4:rope=before"},
     {"k8v4:residual=40", .dense = true},
     {"quant:k=raw:v=raw", .dense = true},
     {"int4:groups=3", KV_REFUSED, .says = {"3 groups", "k_groups"}},
     {"k8v4:v_groups=4", KV_REFUSED, .says = {"4 groups", "v_groups"}},
     {"k3v4", KV_USAGE, .says = {"k3v4", "8, 4, 2 or 1"}},
     {"quant:k=int3", KV_USAGE, .says = {"k=int3", "int2"}},
     {"e4m3-int3", KV_USAGE, .says = {"int3", "|int2|"}}}};

RIG_TESTS(quant, RIG_CASE(when), RIG_CASE(bytes), RIG_CASE(raw_side),
          RIG_CASE(names), RIG_LAWS(laws))
