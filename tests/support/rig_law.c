/* SPDX-License-Identifier: Apache-2.0
 *
 * Data and laws of the method rig.
 */
#include "ref/parts/parts.h"
#include "tests/support/rig.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const float rig_key8[16] = {1, 0, 0, 1, 2, 1, -1, 0, 1, 2, 0, -1, 1, 1, -1, 1};
const float rig_query8[16] = {1, 1, 0, 1, 1, 0, 0, 2, 1, -1, 1, 1, 0, 1, 2, 0};
const float rig_unit8[64] = {
    1, [9] = 1, [18] = 1, [27] = 1, [36] = 1, [45] = 1, [54] = 1, [63] = 1};

rig_case rig_eight(int prompt_len) {
  return (rig_case){.heads = 1,
                    .kv_heads = 1,
                    .d = 2,
                    .d_v = 8,
                    .n_tokens = 8,
                    .prompt_len = prompt_len,
                    .q = rig_query8,
                    .k = rig_key8,
                    .v = rig_unit8};
}

void rig_shares(const rig *r, int head, const double *p) {
  const float *out = rig_out(r, head);
  for (int t = 0; t < 8; t++)
    if (!(fabs((double)out[t] - p[t]) <= 2e-6))
      fail_msg("step %d, head %d, token %d: probability %.7f, expected %.6f",
               rig_step(r), head, t, (double)out[t], p[t]);
}

/* --- data ---------------------------------------------------------------- */

/* In (-2, 2) with all 24 bits of the mantissa in use. */
static float *fill(size_t n, uint64_t seed) {
  float *x = malloc(n * sizeof *x);
  assert_non_null(x);
  for (size_t i = 0; i < n; i++) {
    uint64_t u = kv_mix(seed + kv_mix(i));
    int32_t m = (int32_t)(u & 0xffffff) - 0x800000;
    x[i] = (float)m * 0x1p-22f;
  }
  return x;
}

void rig_data(rig_case *c, uint32_t seed) {
  size_t t = (size_t)c->n_tokens, kv = (size_t)c->kv_heads * t;
  uint64_t s = kv_mix(seed);
  c->q = fill((size_t)c->heads * t * (size_t)c->d, s);
  c->k = fill(kv * (size_t)c->d, kv_mix(s + 1));
  c->v = fill(kv * (size_t)c->d_v, kv_mix(s + 2));
}

void rig_data_free(rig_case *c) {
  free((void *)(uintptr_t)c->q);
  free((void *)(uintptr_t)c->k);
  free((void *)(uintptr_t)c->v);
  c->q = c->k = c->v = NULL;
}

/* --- laws ---------------------------------------------------------------- */

static void lane_is_sound(const kv_lane *l, int step, int most) {
  bool *there = calloc((size_t)step, sizeof *there);
  int64_t weight = 0;
  assert_non_null(there);
  assert_true(l->n >= 1);
  if (l->n > most)
    fail_msg("lane %d, step %d: %d entries, at most %d", l->lane, step, l->n,
             most);
  for (int i = 0; i < l->n; i++) {
    assert_true(l->id[i] < (uint32_t)step);
    assert_false(there[l->id[i]]);
    there[l->id[i]] = true;
    assert_true(l->weight[i] >= 1);
    weight += l->weight[i];
  }
  assert_true(weight <= step);
  if (!l->dropped) assert_int_equal(weight, step);
  free(there);
}

static void view_is_sound(const kv_view *v, int most) {
  int end = -1, sum = 0;
  assert_true(v->entries >= 1);
  for (int i = 0; i < v->runs; i++) {
    assert_true(v->run[i].count >= 1);
    assert_true(v->run[i].first > end); /* a gap between maximal runs */
    end = v->run[i].first + v->run[i].count;
    sum += v->run[i].count;
  }
  assert_true(end <= most);
  assert_int_equal(sum, v->entries);
}

static void step_is_sound(const rig *r, const rig_case *c, rig_bound *bound,
                          const void *ctx) {
  int step = rig_step(r);
  int most = bound ? bound(c, step, ctx) : step;
  for (int l = 0; l < rig_lanes(r); l++)
    lane_is_sound(rig_lane(r, l), step, most);
  if (step == c->prompt_len) return;
  for (int h = 0; h < c->heads; h++) view_is_sound(rig_view(r, h), step);
}

int rig_at_most(const rig_case *c, int step, const void *ctx) {
  int most = *(const int *)ctx;
  (void)c;
  return step < most ? step : most;
}

int rig_grown(const rig_case *c, int step, const void *ctx) {
  return rig_at_most(c, c->prompt_len, ctx) + step - c->prompt_len;
}

int rig_each(const rig_case *c, int step, const void *ctx) {
  const int *of = ctx;
  return of[0] + (step - c->prompt_len) % of[1];
}

void rig_law(const rig_case *c, const char *spec, rig_bound *bound,
             const void *ctx) {
  rig *r = rig_open(c, spec);
  step_is_sound(r, c, bound, ctx);
  for (int step = c->prompt_len + 1; step <= c->n_tokens; step++) {
    rig_to(r, step);
    step_is_sound(r, c, bound, ctx);
  }
  kv_layer_digests a = rig_digests(r), b = rig_replay(c, spec);
  rig_close(r);
  assert_true(rig_same(&a.journal, &b.journal));
  assert_true(rig_same(&a.state, &b.state));
  assert_true(rig_same(&a.output, &b.output));
}

void rig_law_dense(const rig_case *c, const char *spec) {
  kv_layer_digests dense = rig_replay(c, "dense"), d = rig_replay(c, spec);
  if (!rig_same(&dense.output, &d.output))
    fail_msg("%s: not the output of dense", spec);
}

void rig_law_refused(const rig_case *c, const char *spec, kv_rc rc,
                     const char *word, const char *other) {
  kv_err e = {0};
  kv_rc got = rig_try(c, spec, NULL, &e);
  if (got != rc) fail_msg("%s: rc %d, expected %d", spec, got, rc);
  if (!strstr(e.text, word) || !strstr(e.text, other))
    fail_msg("%s: the sentence lacks '%s' or '%s': %s", spec, word, other,
             e.text);
}
