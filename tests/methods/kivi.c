/* SPDX-License-Identifier: Apache-2.0
 *
 * KIVI. Which tokens are coded after every step follows from the rule alone
 * (keys in blocks of `residual`, values one by one); tokens that are not are
 * read to the bit, coded ones within half a step of their group's range; all
 * stay; bytes are those of the published formula, metadata included. A
 * residual that holds everything gives dense. What the codes are is held by
 * check_format.
 */
#include "tests/rig.h"
#include <math.h>
#include <stdio.h>

static bool is_full(const kv_cell_ref *side, int i) {
  return side[i].format == KV_RAW;
}

static void when(void **state) {
  rig_case c = {.heads = 2,
                .kv_heads = 1,
                .d = 8,
                .d_v = 6,
                .n_tokens = 30,
                .prompt_len = 11};
  (void)state;
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

static void errors(void **state) {
  rig_case c = {.heads = 2,
                .kv_heads = 2,
                .d = 12,
                .d_v = 10,
                .n_tokens = 50,
                .prompt_len = 20};
  (void)state;
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
static void bytes(void **state) {
  rig_case c = {.heads = 1,
                .kv_heads = 1,
                .d = 128,
                .d_v = 128,
                .n_tokens = 200,
                .prompt_len = 192,
                .half = true};
  (void)state;
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
  rig_case c = {.heads = 1,
                .kv_heads = 1,
                .d = 64,
                .d_v = 64,
                .n_tokens = 200,
                .prompt_len = 150};
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

static void laws(void **state) {
  rig_case c = {.heads = 4,
                .kv_heads = 2,
                .d = 16,
                .d_v = 8,
                .n_tokens = 50,
                .prompt_len = 20};
  (void)state;
  rig_data(&c, 14);
  rig_law(&c, "kivi:group=4:residual=8", NULL, NULL);
  rig_law(&c, "kivi:group=3:residual=3:k_bits=4", NULL, NULL);
  rig_law(&c, "kivi:group=1:residual=1:bits=4", NULL, NULL);
  rig_law_dense(&c, "kivi"); /* 128 tokens stay as they came */
  rig_law_dense(&c, "kivi:group=51");
  rig_law_refused(&c, "kivi:residual=100", KV_REFUSED, "residual=100",
                  "group=32");
  rig_law_refused(&c, "kivi:bits=3", KV_USAGE, "bits=3", "4");
  rig_law_refused(&c, "kivi:k_bits=3", KV_USAGE, "k_bits=3", "4");
  c.prompt_len = 1;
  rig_law(&c, "kivi:group=4:residual=4", NULL, NULL);
  c.half = true;
  rig_law(&c, "kivi:group=4:residual=4", NULL, NULL);
  rig_data_free(&c);
}

int kv_test_kivi(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(when), cmocka_unit_test(errors), cmocka_unit_test(bytes),
      cmocka_unit_test(variants), cmocka_unit_test(laws)};
  return cmocka_run_group_tests_name("kivi", tests, NULL, NULL);
}
