/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of the row kernels: every kernel of every set that this machine can
 * run gives, bit for bit, what the plain scalar loop below gives; it reads
 * and writes exactly the elements named. All arrays end at a page that may
 * not be touched; rows start at odd addresses too.
 *
 * The data are such that errors show: binary32 with full mantissas (a fused
 * or unfused product changes bits: `the_data_can_tell`), fp16 and bf16 with
 * subnormals.
 */
#include "ref/ground/arith.h"
#include "tests/support/draw.h"
#include "tests/support/little.h"
#include "tests/support/sets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/guarded.h"
#include "tests/support/test.h"

enum { ROWS = 130, MOST_D = 300 };

static const int dims[] = {1,  2,  3,  7,  8,  15, 16, 17,  31,  32,  33,
                           40, 48, 64, 65, 80, 96, 99, 100, 128, 256, 300};
enum { DIMS = sizeof dims / sizeof *dims };

static uint64_t seed = 0x853c49e6748fea9bu;
static uint32_t word(void) { return (uint32_t)(draw(&seed) >> 32); }
static int below(int n) { return draw_below(&seed, n); }

/* Full mantissas, magnitudes 2^-6 to 2^2. */
static float full(void) {
  uint32_t u = word();
  return kv_float((u & 0x807fffffu) | (121u + (u >> 23 & 7u)) << 23);
}

static unsigned char *row_end[ROWS];
static const void *row[ROWS];

static int make_memory(void **state) {
  for (int i = 0; i < ROWS; i++) row_end[i] = guarded(4096);
  guarded_open();
  kv_float_ground();
  return find_sets(state);
}

static void fill_bytes(kv_dtype type, size_t n, unsigned char *p) {
  for (size_t i = 0; i < n; i++) {
    float x = full();
    uint16_t h = type == KV_F16 ? kv_to_f16(x) : kv_to_bf16(x);
    if (type == KV_F16 && below(16) == 0) h &= 0x83ffu; /* subnormal */
    if (type == KV_F32) {
      memcpy(p + 4 * i, &x, 4);
    } else {
      memcpy(p + 2 * i, &h, 2);
    }
  }
}

/* n rows of d elements that end at their page's end, or a byte before. */
static void fill_rows(kv_dtype type, int n, int d) {
  for (int j = 0; j < n; j++) {
    unsigned char *p = row_end[j] - (size_t)d * kv_dtype_size(type) - (j & 1);
    fill_bytes(type, (size_t)d, p);
    row[j] = p;
  }
}

static float element(kv_dtype type, const void *base, size_t i) {
  const unsigned char *p = base;
  uint16_t h;
  float x;
  if (type == KV_F32) {
    memcpy(&x, p + 4 * i, 4);
    return x;
  }
  memcpy(&h, p + 2 * i, 2);
  return type == KV_F16 ? kv_from_f16(h) : kv_from_bf16(h);
}

static void same(const float *got, const float *want, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (kv_bits(got[i]) != kv_bits(want[i]))
      fail_msg("element %zu of %zu: got %a, want %a", i, n, (double)got[i],
               (double)want[i]);
}

/* --- the definitions ---------------------------------------------------- */

static float logit(int d, const float *q, const void *k, kv_dtype type,
                   float scale) {
  float acc = 0.0f;
  for (int x = 0; x < d; x++)
    acc = fmaf(q[x], element(type, k, (size_t)x), acc);
  return kv_add(kv_mul(acc, scale), 0.0f);
}

static float unfused_logit(int d, const float *q, const void *k, kv_dtype type,
                           float scale) {
  float acc = 0.0f;
  for (int x = 0; x < d; x++)
    acc = kv_add(acc, kv_mul(q[x], element(type, k, (size_t)x)));
  return kv_add(kv_mul(acc, scale), 0.0f);
}

static float bound(int d, const float *q, const void *lo, const void *hi,
                   kv_dtype type, int t, int fused) {
  float u = 0.0f;
  for (int x = 0; x < d; x++) {
    size_t at = (size_t)((t / 16 * d + x) * 16 + t % 16);
    float a = element(type, lo, at), b = element(type, hi, at);
    int low = kv_key(kv_mul(q[x], a)) > kv_key(kv_mul(q[x], b));
    float m = kv_max(kv_mul(q[x], a), kv_mul(q[x], b));
    u = fused ? fmaf(q[x], low ? a : b, u) : kv_add(u, m);
  }
  return u;
}

/* --- one shape against its definition ----------------------------------- */

static void check_logits(const kv_kernels *k, kv_dtype type, int m, int n,
                         int d) {
  const size_t ldq = (size_t)d + (size_t)below(3), lds = (size_t)(n + below(5));
  const size_t held = (size_t)(m - 1) * lds + (size_t)n;
  const float scale = full();
  float *q = floats(0, (size_t)(m - 1) * ldq + (size_t)d, full);
  float *s = floats(1, held, full), *want = last(2, 4 * held);
  float *pack = last(3, (size_t)d * KV_PACK * 4);
  fill_rows(type, n, d);
  if (below(8) == 0) memset(q, 0, 4 * (size_t)d); /* -0 must come out +0 */
  memcpy(want, s, 4 * held); /* between n and lds nothing may change */
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++)
      want[(size_t)i * lds + (size_t)j] =
          logit(d, q + (size_t)i * ldq, row[j], type, scale);
  k->logits(m, n, d, q, ldq, row, type, scale, s, lds, pack);
  same(s, want, held);
}

static void check_weigh(const kv_kernels *k, kv_dtype type, int m, int n,
                        int d) {
  const size_t ldp = (size_t)(n + below(5)), all = (size_t)m * (size_t)d;
  float *p = floats(0, (size_t)(m - 1) * ldp + (size_t)n, full);
  float *a = floats(1, all, full), *want = last(2, 4 * all);
  fill_rows(type, n, d);
  memcpy(want, a, 4 * all);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++)
      for (int x = 0; x < d; x++) {
        float *y = want + (size_t)i * (size_t)d + x;
        *y = fmaf(p[(size_t)i * ldp + (size_t)j],
                  element(type, row[j], (size_t)x), *y);
      }
  k->weigh(m, n, d, p, ldp, row, type, a);
  same(a, want, all);
}

static void check_bound(const kv_kernels *k, kv_dtype type, int n, int d) {
  const size_t up = (size_t)(n + 15) / 16 * 16, all = up * (size_t)d;
  const size_t bytes = all * kv_dtype_size(type), odd = (size_t)below(2);
  float *q = floats(0, (size_t)d, full), *u = floats(1, up, full);
  unsigned char *lo = last(2, bytes + odd), *hi = last(3, bytes + odd);
  fill_bytes(type, all, lo);
  fill_bytes(type, all, hi);
  if (below(4) == 0) q[below(d)] = 0.0f; /* products of either zero */
  k->box_bound(n, d, q, lo, hi, type, u);
  for (int t = 0; t < (int)up; t++) {
    float want = bound(d, q, lo, hi, type, t, 0);
    same(u + t, &want, 1);
  }
}

/* --- the tests, over every set ------------------------------------------ */

static void each_shape(void (*check)(const kv_kernels *, kv_dtype, int, int,
                                     int)) {
  for (int s = 0; s < n_sets; s++)
    for (int type = 0; type < 3; type++) {
      for (int n = 1; n <= ROWS; n += little_step(3))
        for (int i = 0; i < 2; i++)
          check(sets[s], (kv_dtype)type, 1 + below(9), n, dims[below(DIMS)]);
      for (int i = 0; i < DIMS; i++)
        for (int m = 1; m <= 14; m += little_step(3))
          check(sets[s], (kv_dtype)type, m, 1 + below(ROWS / 2), dims[i]);
    }
}

TEST(logits_are_chains) { each_shape(check_logits); }
TEST(weigh_is_chains) { each_shape(check_weigh); }

TEST(bounds_are_chains) {
  for (int s = 0; s < n_sets; s++)
    for (int type = 0; type < 3; type++)
      for (int n = 1; n <= ROWS; n += little_step(3))
        check_bound(sets[s], (kv_dtype)type, n, dims[below(DIMS)]);
}

TEST(the_data_can_tell) {
  int logits = 0, bounds = 0;
  float *q = floats(0, 64, full);
  unsigned char *lo = last(2, 4096), *hi = last(3, 4096);
  fill_rows(KV_F32, ROWS, 64);
  fill_bytes(KV_F32, 1024, lo);
  fill_bytes(KV_F32, 1024, hi);
  for (int j = 0; j < ROWS; j++)
    logits += logit(64, q, row[j], KV_F32, 1.0f) !=
              unfused_logit(64, q, row[j], KV_F32, 1.0f);
  for (int t = 0; t < 16; t++)
    bounds += bound(64, q, lo, hi, KV_F32, t, 0) !=
              bound(64, q, lo, hi, KV_F32, t, 1);
  /* Sums of maxima grow, so fewer of them show a product's last bit. */
  assert_true(logits > ROWS / 2 && bounds > 16 / 4);
}

static void check_widen(const kv_kernels *k, kv_dtype type, size_t n) {
  const size_t bytes = n * kv_dtype_size(type), odd = (size_t)below(2);
  unsigned char *in = last(0, bytes + odd);
  float *out = last(1, 4 * n);
  fill_bytes(type, n, in);
  k->widen(type, in, n, out);
  for (size_t i = 0; i < n; i++) {
    float want = element(type, in, i);
    same(out + i, &want, 1);
  }
}

TEST(widening_is_exact) {
  for (int s = 0; s < n_sets; s++) {
    for (int type = 0; type < 3; type++)
      for (size_t n = 0; n <= 70; n++) check_widen(sets[s], (kv_dtype)type, n);
    for (int type = 0; type < 2; type++) { /* all 65,536 */
      uint16_t *in = last(0, 131072);
      float *out = last(1, 4 * 65536);
      for (int i = 0; i < 65536; i++) in[i] = (uint16_t)i;
      sets[s]->widen((kv_dtype)type, in, 65536, out);
      for (size_t i = 0; i < 65536; i++) {
        float want = element((kv_dtype)type, in, i);
        same(out + i, &want, 1);
      }
    }
  }
}

static float score(void) { return kv_mul(full(), 20.0f); }

static void check_exp(const kv_kernels *k, int n) {
  float *s = floats(0, (size_t)n, score), *e = last(1, 4 * (size_t)n), m = s[0];
  for (int j = 1; j < n; j++) m = kv_max(m, s[j]);
  const float top = k->max(s, n);
  same(&top, &m, 1);
  int64_t want = 0, sum = k->exp_sum(s, m, n, e);
  for (int j = 0; j < n; j++) {
    float y = kv_expm(kv_sub(s[j], m));
    same(e + j, &y, 1);
    want += kv_fix(y);
  }
  assert_true(sum == want);
  assert_true(k->exp_sum(s, m, n, s) == want); /* in place */
  same(s, e, (size_t)n);
  float t = 0.25f + fabsf(full());
  s = floats(0, (size_t)n, score);
  want = 0;
  for (int j = 0; j < n; j++) s[j] = -fabsf(s[j]);
  sum = k->exp_over(s, t, n, e);
  for (int j = 0; j < n; j++) {
    float y = kv_expm(kv_div(s[j], t));
    same(e + j, &y, 1);
    want += kv_fix(y);
  }
  assert_true(sum == want && k->exp_over(s, t, n, s) == want);
}

static float probability(void) {
  float p = kv_expm(-fabsf(score()));
  return below(50) ? p : kv_float(word() & 0x807fffffu); /* subnormal */
}
/* Ties of the fixed point, and the ends of its domain. */
static float awkward(void) {
  switch (below(4)) {
  case 0:
    return kv_mul((float)(2 * below(1 << 20) + 1), 0x1p-41f);
  case 1:
    return kv_mul(full(), 0x1p20f);
  case 2:
    return kv_mul(full(), 0x1p10f);
  default:
    return below(2) ? 0x1p22f : -0x1p22f;
  }
}

static void check_fixed(const kv_kernels *k, int n, float (*make)(void)) {
  float *p = floats(0, (size_t)n, make), r = full();
  int64_t *acc = last(1, 8 * (size_t)n), *want = last(2, 8 * (size_t)n);
  for (int j = 0; j < n; j++) {
    acc[j] = (int64_t)((uint64_t)word() << 20) - ((int64_t)1 << 50);
    want[j] = acc[j] + kv_fix(p[j]);
  }
  k->fix_add(p, n, acc);
  assert_memory_equal(acc, want, 8 * (size_t)n);
  float *y = last(3, 4 * (size_t)n);
  for (int j = 0; j < n; j++) y[j] = kv_mul(p[j], r);
  k->scale(r, n, p);
  same(p, y, (size_t)n);
}

/* Apart and in place: of every other row the values are few. */
static void check_at_least(const kv_kernels *k, int n) {
  float *s = floats(0, (size_t)n, full), *value = last(1, 4 * (size_t)n);
  int32_t *place = last(2, 4 * (size_t)n);
  for (int j = 0; n % 2 && j < n; j++) s[j] = (float)below(3);
  float least = n % 3 ? s[below(n)] : -__builtin_inff();
  for (int twice = 0; twice < 2; twice++) {
    int m = k->at_least(s, n, least, twice ? s : value, place), there = 0;
    for (int j = 0; !twice && j < n; j++) {
      if (!(s[j] >= least)) continue;
      assert_true(there < m && place[there] == j && value[there] == s[j]);
      there++;
    }
    if (!twice) assert_int_equal(there, m);
    if (twice) same(s, value, (size_t)m);
  }
}

static float positive(void) {
  uint32_t u;
  do {
    u = word() >> 1;
  } while (u < 0x00800000u || u >= 0x7f800000u);
  return kv_float(u);
}

static void check_log(const kv_kernels *k, int n) {
  float *x = floats(0, (size_t)n, positive), *y = last(1, 4 * (size_t)n);
  x[0] = 1.0f;
  k->log(x, n, y);
  for (int j = 0; j < n; j++) {
    float want = kv_log(x[j]);
    same(y + j, &want, 1);
  }
  k->log(x, n, x);
  same(x, y, (size_t)n);
}

TEST(rows_are_elementwise) {
  for (int s = 0; s < n_sets; s++) {
    for (int n = 1; n <= 200; n++) {
      check_exp(sets[s], n);
      check_fixed(sets[s], n, probability);
      check_fixed(sets[s], n, awkward);
      check_log(sets[s], n);
      check_at_least(sets[s], n);
    }
    check_exp(sets[s], 100000);
    check_log(sets[s], 100000);
  }
}

TEST(names_are_known) {
  char note[128];
  kv_err e;
  const kv_kernels *k = NULL;
  for (int i = 0; set_names[i]; i++) {
    const char *name = set_names[i];
    assert_int_equal(kv_kernels_named(name, &k, note, &e), KV_OK);
    assert_true((strcmp(k->name, name) == 0) == (note[0] == 0));
    assert_int_equal(kv_kernels_named(name, &k, NULL, &e), KV_OK);
  }
  assert_ptr_equal(k, kv_kernels_best()); /* the last name is the best */
  assert_int_equal(kv_kernels_named("sse9", &k, note, &e), KV_USAGE);
  assert_non_null(strstr(e.text, "sse9"));
}

int main(void) { return tests_run("kernels", make_memory, NULL); }
