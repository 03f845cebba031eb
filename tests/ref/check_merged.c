/* SPDX-License-Identifier: Apache-2.0
 *
 * What merged rows are stored as (kv_needs.merged): rounded once a merge to the
 * trace's type, or fp32, against plain loops that round by binary64; what that
 * costs in bytes; a running mean that stops; a mean that the type does not
 * hold. Of a trace in F32 both are the same.
 */
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include "ref/lane/lane.h"
#include "ref/lane/records.h"
#include "sim/replay/measure/cost.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { D = 5, DV = 3 };

/* One lane of n tokens. */
typedef struct rig {
  kv_shape shape;
  kv_needs needs;
  kv_layer_data data;
  float *k, *v; /* [n][D], [n][DV], as the trace has them */
  void *rows[2];
  kv_lane lane;
} rig;

/* x to so many bits of precision, to the nearest even. */
static float rounded(kv_dtype type, double x) {
  int bits = type == KV_F16 ? 11 : type == KV_BF16 ? 8 : 24;
  double least = type == KV_F16 ? 0x1p-24 : 0x1p-133;
  if (x == 0 || type == KV_F32) return (float)x;
  double unit = ldexp(1, ilogb(x) - bits + 1);
  if (unit < least) unit = least;
  return (float)(nearbyint(x / unit) * unit);
}

static void *narrowed(kv_dtype type, size_t n, float *x) {
  void *rows = malloc(n * kv_dtype_size(type));
  uint16_t *half = rows;
  assert_non_null(rows);
  for (size_t i = 0; i < n; i++) {
    x[i] = rounded(type, (double)x[i]);
    if (type == KV_F32)
      ((float *)rows)[i] = x[i];
    else
      half[i] = type == KV_F16 ? kv_to_f16(x[i]) : kv_to_bf16(x[i]);
  }
  return rows;
}

static float number(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (float)(int32_t)(*seed >> 8) * 0x1p-22f - 2;
}

/* Elements of token t: at(t), or drawn where at is NULL. */
static void begin(rig *r, kv_dtype type, kv_means merged, int n,
                  float (*at)(int t)) {
  uint32_t seed = 9;
  size_t t = (size_t)n;
  *r = (rig){.shape = {.n_heads = 1,
                       .n_kv_heads = 1,
                       .d = D,
                       .d_v = DV,
                       .n_tokens = n,
                       .prompt_len = n,
                       .dtype = type},
             .needs = {.merges = true, .merged = merged},
             .k = calloc(t * D, sizeof(float)),
             .v = calloc(t * DV, sizeof(float))};
  assert_true(r->k && r->v);
  for (size_t i = 0; i < t * D; i++)
    r->k[i] = at ? at((int)(i / D)) : number(&seed);
  for (size_t i = 0; i < t * DV; i++)
    r->v[i] = at ? at((int)(i / DV)) : number(&seed) * 0x1p-12f;
  r->rows[0] = narrowed(type, t * D, r->k);
  r->rows[1] = narrowed(type, t * DV, r->v);
  r->data = (kv_layer_data){.k = r->rows[0], .v = r->rows[1]};
  assert_int_equal(
      kv_lane_init(&r->lane, &r->shape, &r->needs, kv_kernels_best(), 0, NULL),
      0);
  assert_int_equal(kv_lane_room_init(&r->lane.room, n, NULL), 0);
  kv_lane_begin(&r->lane, &r->needs, &r->data);
  kv_lane_append(&r->lane, 0, n);
}

static void end(rig *r) {
  kv_lane_room_release(&r->lane.room);
  kv_lane_release(&r->lane);
  free(r->k), free(r->v), free(r->rows[0]), free(r->rows[1]);
}

/* --- one rounding a merge ------------------------------------------------- */

static void blend(kv_dtype type, int n, float a, float b, const float *from,
                  float *into) {
  for (int i = 0; i < n; i++)
    into[i] = rounded(type, (double)(fmaf(a, into[i], b * from[i]) / (a + b)));
}

/* Every entry's K and V, as they are read. */
static void same_rows(const rig *r) {
  float row[D];
  for (int i = 0; i < r->lane.n; i++) {
    if (!kv_is_live(&r->lane, i)) continue;
    kv_lane_key(&r->lane, i, row);
    assert_memory_equal(row, r->k + i * D, D * sizeof *row);
    kv_lane_value(&r->lane, i, row);
    assert_memory_equal(row, r->v + i * DV, DV * sizeof *row);
  }
}

/* K and V of a merged entry in bytes, wherever they are counted. */
static void same_bytes(const rig *r, int merged, int each) {
  kv_bytes b = {0};
  int raw = (D + DV) * (int)kv_dtype_size(r->shape.dtype);
  kv_lane_bytes(&r->lane, &b);
  assert_int_equal(b.payload, (r->lane.n - merged) * raw + merged * each);
  assert_int_equal(kv_row_bytes(&r->shape, &r->needs, KV_SIDE_K, KV_MERGED) +
                       kv_row_bytes(&r->shape, &r->needs, KV_SIDE_V, KV_MERGED),
                   each);
}

static void merges(kv_dtype type, kv_means merged, kv_digest *rewrites) {
  enum { N = 40, MERGES = 30, LEFT = N - MERGES };
  kv_dtype stored = merged == KV_MEANS_FP32 ? KV_F32 : type;
  int each = (D + DV) * (stored == KV_F32 ? 4 : 2), means = 0;
  uint32_t seed = 5;
  rig r;
  begin(&r, type, merged, N, NULL);
  for (int m = 0; m < MERGES; m++) {
    int into = m % LEFT, from = LEFT + m;
    float a = 1 + (float)(m / LEFT), b = number(&seed) + 3;
    kv_merge(&r.lane, into, from, a, b);
    blend(stored, D, a, b, r.k + from * D, r.k + into * D);
    blend(stored, DV, a, b, r.v + from * DV, r.v + into * DV);
    same_rows(&r);
  }
  assert_int_equal(kv_cost_lane_verbs(&r.lane).moved, MERGES * each);
  kv_sweep(&r.lane);
  for (int i = 0; i < LEFT; i++) means += r.lane.weight[i] > 1;
  assert_int_equal(means, LEFT);
  same_bytes(&r, LEFT, each);
  assert_int_equal(r.lane.fault.rc, 0);
  *rewrites = r.lane.rewrites;
  end(&r);
}

TEST(once_a_merge) {
  static const kv_dtype types[] = {KV_F16, KV_BF16, KV_F32};
  for (int i = 0; i < 3; i++) {
    kv_digest both[2];
    merges(types[i], KV_MEANS_TRACE, &both[0]);
    merges(types[i], KV_MEANS_FP32, &both[1]);
    bool same = memcmp(&both[0], &both[1], sizeof both[0]) == 0;
    assert_int_equal(same, types[i] == KV_F32);
  }
}

/* --- where a running mean stops ------------------------------------------- */

static float ones_then_twos(int t) { return t < 1000 ? 1 : 2; }

/* 1,000 ones and 1,000 twos, merged one by one with weights of n and 1. A two
 * moves the mean x by (2 - x) / (n + 1), which is lost below half a unit: with
 * bf16, 2^-8, from the first on; with fp16, 2^-11, from where x is 1.34. */
TEST(running_mean) {
  static const struct {
    kv_dtype type;
    kv_means merged;
    float mean;
  } of[] = {{KV_BF16, KV_MEANS_TRACE, 1},
            {KV_F16, KV_MEANS_TRACE, 1.341796875f},
            {KV_BF16, KV_MEANS_FP32, 1.5f},
            {KV_F16, KV_MEANS_FP32, 1.5f}};
  for (int i = 0; i < 4; i++) {
    rig r;
    float key[D];
    begin(&r, of[i].type, of[i].merged, 2000, ones_then_twos);
    for (int t = 1; t < 2000; t++) {
      kv_merge(&r.lane, 0, t, (float)r.lane.weight[0], 1);
      r.lane.verbs.n = 0;
    }
    kv_lane_key(&r.lane, 0, key);
    if (!(fabsf(key[0] - of[i].mean) <= 1e-4f))
      fail_msg("case %d: the mean is %.10g", i, (double)key[0]);
    end(&r);
  }
}

/* --- what the type does not hold ------------------------------------------ */

static float large(int t) { return t ? 60000 : -60000; }

/* 2 x 60,000 + 60,000 over 1 is finite as fp32 and not as fp16. */
TEST(not_finite) {
  for (int wide = 0; wide < 2; wide++) {
    rig r;
    begin(&r, KV_F16, wide ? KV_MEANS_FP32 : KV_MEANS_TRACE, 4, large);
    kv_merge(&r.lane, 2, 3, 1, 3);
    assert_int_equal(r.lane.fault.rc, 0);
    kv_merge(&r.lane, 1, 0, 2, -1);
    assert_int_equal(r.lane.fault.rc, wide ? 0 : KV_REFUSED);
    if (!wide)
      assert_string_equal(r.lane.fault.text,
                          "layer 0, lane 0, step 4: merging into token 1 "
                          "gives a mean that is not finite as stored");
    end(&r);
  }
}

int main(void) { return tests_run("merged rows", NULL, NULL); }
