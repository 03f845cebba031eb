/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session refuses, and that refusing changes nothing:
 *   - shapes, specifications and budgets that cannot be, each by name;
 *   - NaN, Inf, numbers that the stored dtype does not have;
 *   - a logit that is not finite ends its layer and no other;
 *   - thousands of calls in random order, right and wrong, against a model
 *     that says which are right; digests at the end are those of the right
 *     calls alone;
 *   - strides, dtypes and the caller's rounding mode cannot be seen.
 */
#include "ref/ground/arith.h"
#include "sim/run/session/session.h"
#include "tests/support/draw.h"
#include "tests/support/told.h"

#include <fenv.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 2, H = 4, G = 2, D = 8, DV = 4, T = 14, P = 9 };

/* [L][T][heads][..]: token by token, as models have them. Multiples of 2^-6
 * below 4, which every dtype holds. */
static float q[L][T][H][D], k[L][T][G][D], v[L][T][G][DV];
static uint16_t k16[L][T][G][D], v16[L][T][G][DV];

static float small(uint64_t *seed) {
  return (float)(draw_below(seed, 255) - 127) * 0x1p-6f;
}

static int make_data(void **state) {
  uint64_t seed = 11;
  (void)state;
  for (size_t i = 0; i < sizeof q / 4; i++) ((float *)q)[i] = small(&seed);
  for (size_t i = 0; i < sizeof k / 4; i++) {
    ((float *)k)[i] = small(&seed);
    ((uint16_t *)k16)[i] = kv_to_f16(((float *)k)[i]);
  }
  for (size_t i = 0; i < sizeof v / 4; i++) {
    ((float *)v)[i] = small(&seed);
    ((uint16_t *)v16)[i] = kv_to_f16(((float *)v)[i]);
  }
  return 0;
}

static kv_session_shape shape(kv_dtype dtype) {
  return (kv_session_shape){.abi = KV_SESSION_ABI,
                            .n_layers = L,
                            .n_heads = H,
                            .n_kv_heads = G,
                            .d = D,
                            .d_v = DV,
                            .n_tokens = T,
                            .dtype = (int32_t)dtype};
}

static kv_session *start(kv_dtype dtype) {
  kv_session_shape x = shape(dtype);
  kv_session *s = NULL;
  works(kv_session_open(&x, "h2o", "6", P, &s, &told));
  return s;
}

static kv_rc give(kv_session *s, int l, int first, int n, kv_dtype from,
                  kv_err *e) {
  const void *key = k[l][first], *value = v[l][first];
  if (from == KV_F16) {
    key = k16[l][first];
    value = v16[l][first];
  }
  kv_session_in a = {q[l][first], KV_F32, H * D, D};
  kv_session_in b = {key, (int32_t)from, G * D, D};
  kv_session_in c = {value, (int32_t)from, G * DV, DV};
  return kv_session_block(s, l, first + n, n, &a, &b, &c, NULL, e);
}

/* The whole request; digests at its end. */
static kv_session_digests finish(kv_session *s, kv_dtype from) {
  kv_session_digests d = {0};
  kv_rc rc = KV_OK;
  for (int l = 0; !rc && l < L; l++) {
    rc = give(s, l, 0, P, from, &told);
    for (int t = P; !rc && t < T; t++) rc = give(s, l, t, 1, from, &told);
  }
  if (!rc) rc = kv_session_digest(s, &d, &told);
  if (rc) fail_msg("%s", told.text);
  kv_session_close(s);
  return d;
}

static void same(const kv_session_digests *a, const kv_session_digests *b) {
  assert_memory_equal(a, b, sizeof *a);
}

/* A sentence: it names the thing. */
static void refused(kv_rc rc, kv_rc want, const kv_err *e, const char *word) {
  assert_int_equal(rc, want);
  if (!strstr(e->text, word)) fail_msg("\"%s\" says not %s", e->text, word);
}

/* --- opening ------------------------------------------------------------ */

TEST(wrong_shapes) {
  static const int32_t twice[] = {1, 1}, past[] = {0, 2};
  static const int32_t below[T] = {0, 1, -1};
  static const int32_t window[L] = {0, 1};
  static const float wild[D / 2] = {1, INFINITY}, plain[D / 2] = {1};
  static const float sinks[L][H] = {{0}, {0, 0, INFINITY}};
  static const char *const word[] = {
      "ABI",        "n_layers", "n_heads",   "n_kv_heads", "divide",
      "d is",       "d_v",      "n_tokens",  "dtype",      "scale",
      "fed[1]",     "fed[1]",   "n_fed",     "inv_freq",   "positions",
      "n_tokens",   "softcap",  "window[1]", "the sink",   "give both",
      "windowed[1]"};
  enum { N = sizeof word / sizeof *word };
  kv_session_shape x[N];
  for (int i = 0; i < N; i++) x[i] = shape(KV_F32);
  x[0].abi = 77;
  x[1].n_layers = 0;
  x[2].n_heads = -4;
  x[3].n_kv_heads = 5;
  x[4].n_kv_heads = 3;
  x[5].d = 1 << 30;
  x[6].d_v = 0;
  x[7].n_tokens = INT32_MAX;
  x[8].dtype = 3;
  x[9].scale = NAN;
  x[10].n_fed = x[11].n_fed = 2;
  x[10].fed = twice;
  x[11].fed = past;
  x[12].n_fed = 2;
  x[13].inv_freq = wild;
  x[14].positions = below;
  x[15].n_heads = x[15].n_tokens = 1 << 12;
  x[15].n_kv_heads = 1;
  x[15].n_tokens = 1 << 20;
  x[16].softcap = -1;
  x[17].window = window;
  x[18].sinks = sinks[0];
  x[19].inv_freq_windowed = plain;
  x[20].inv_freq = plain;
  x[20].inv_freq_windowed = wild;
  for (int i = 0; i < N; i++) {
    kv_session *s = (kv_session *)&x;
    kv_rc rc = kv_session_open(&x[i], "dense", NULL, P, &s, &told);
    refused(rc, KV_USAGE, &told, word[i]);
    assert_null(s);
  }
}

TEST(wrong_methods) {
  static const struct {
    const char *spec, *budget;
    int prompt_len;
    kv_rc rc;
    const char *word;
  } wrong[] = {{"h20", "6", P, KV_USAGE, "h2o"},
               {"h2o", NULL, P, KV_USAGE, "budget"},
               {"h2o", "mean:20%", P, KV_USAGE, "search"},
               {"h2o", "many", P, KV_USAGE, "many"},
               {"h2o:recent=7", "6", P, KV_REFUSED, "recent"},
               {"h2o:recent=x", "6", P, KV_USAGE, "recent"},
               {"streamingllm", "6", P, KV_REFUSED, "inv_freq"},
               {"replay:file=x", NULL, P, KV_REFUSED, "cannot open"},
               {"oracle-evict", "6", P, KV_REFUSED, "future queries"},
               {"dense", NULL, 0, KV_USAGE, "prompt_len"},
               {"dense", NULL, T + 1, KV_USAGE, "prompt_len"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    kv_session_shape x = shape(KV_F16);
    kv_session *s = NULL;
    kv_rc rc = kv_session_open(&x, wrong[i].spec, wrong[i].budget,
                               wrong[i].prompt_len, &s, &told);
    if (rc != wrong[i].rc) fail_msg("%s: %d %s", wrong[i].spec, rc, told.text);
    refused(rc, wrong[i].rc, &told, wrong[i].word);
    assert_null(s);
  }
  kv_session_shape x = shape(KV_F16);
  kv_session *s = NULL; /* of a budget of its own none need be given */
  assert_int_equal(kv_session_open(&x, "omnikv", NULL, P, &s, NULL), KV_OK);
  kv_session_close(s);
  assert_int_equal(kv_session_open(NULL, "dense", NULL, P, NULL, NULL),
                   KV_USAGE);
  assert_int_equal(kv_session_abi(), KV_SESSION_ABI);
}

/* --- numbers ------------------------------------------------------------ */

TEST(dtypes_do_not_show) {
  kv_session_digests a = finish(start(KV_F16), KV_F16);
  kv_session_digests b = finish(start(KV_F16), KV_F32);
  same(&a, &b);
  kv_session_digests c = finish(start(KV_F32), KV_F16);
  kv_session_digests d = finish(start(KV_F32), KV_F32);
  same(&c, &d);
  assert_int_equal(fesetround(FE_UPWARD), 0);
  kv_session_digests f = finish(start(KV_F32), KV_F32);
  volatile float one = 1, little = 0x1p-40f;
  assert_true(one + little > 1); /* what fegetround asks may be another unit */
  fesetround(FE_TONEAREST);
  same(&d, &f);
}

TEST(out_is_rounded) {
  float whole[P][H][DV];
  uint16_t half[H][P][DV];
  kv_session_out to[2] = {{whole, KV_F32, H * DV, DV},
                          {half, KV_BF16, DV, P * DV}};
  for (int i = 0; i < 2; i++) {
    kv_session *s = start(KV_F32);
    kv_session_in a = {q[0], KV_F32, H * D, D};
    kv_session_in b = {k[0], KV_F32, G * D, D};
    kv_session_in c = {v[0], KV_F32, G * DV, DV};
    assert_int_equal(kv_session_block(s, 0, P, P, &a, &b, &c, &to[i], NULL),
                     KV_OK);
    kv_session_close(s);
  }
  for (int t = 0; t < P; t++)
    for (int h = 0; h < H; h++)
      for (int i = 0; i < DV; i++)
        assert_int_equal(half[h][t][i], kv_to_bf16(whole[t][h][i]));
}

TEST(wrong_numbers) {
  kv_session_digests right = finish(start(KV_F16), KV_F32);
  static const float bad[] = {NAN, INFINITY, 1 + 0x1p-20f, 70000};
  static const char *const word[] = {"NaN", "Inf", "exact", "exact"};
  kv_session *s = start(KV_F16);
  for (int i = 0; i < 4; i++) {
    float kept = k[0][3][1][2];
    k[0][3][1][2] = bad[i];
    kv_rc rc = give(s, 0, 0, 5, KV_F32, &told);
    k[0][3][1][2] = kept;
    refused(rc, KV_USAGE, &told, word[i]);
    refused(rc, KV_USAGE, &told, "k of layer 0, token 3, head 1");
  }
  kv_session_in a = {q[0], KV_F32, H * D, D}, b = {k[0], KV_F32, G * D, D};
  kv_session_in c = {v[0], KV_F32, G * DV, DV}, half = {k16, KV_F16, 0, 0};
  kv_session *two = start(KV_F16);
  works(kv_session_block(two, 0, 2, 2, &a, &b, &c, NULL, &told));
  refused(kv_session_block(two, 0, 3, 1, &half, &b, &c, NULL, &told), KV_USAGE,
          &told, "dtype");
  kv_session_close(two);
  kv_session_digests after = finish(s, KV_F32);
  same(&right, &after);
}

TEST(endless_logits) {
  kv_session *s = start(KV_F32);
  kv_session_bytes b;
  float kept[H][D];
  for (int l = 0; l < L; l++) works(give(s, l, 0, P, KV_F32, &told));
  memcpy(kept, q[0][P], sizeof kept);
  for (int i = 0; i < D; i++) q[0][P][1][i] = 3e38f;
  kv_rc rc = give(s, 0, P, 1, KV_F32, &told);
  memcpy(q[0][P], kept, sizeof kept);
  refused(rc, KV_REFUSED, &told, "layer 0, query head 1");
  refused(give(s, 0, P + 1, 1, KV_F32, &told), KV_REFUSED, &told, "not finite");
  works(give(s, 1, P, 1, KV_F32, &told));
  refused(kv_session_digest(s, NULL, &told), KV_REFUSED, &told, "not finite");
  refused(kv_session_end_step(s, P + 1, &told), KV_USAGE, &told, "failed");
  works(kv_session_ledger(s, &b, &told));
  kv_session_close(s);
}

/* --- any order ---------------------------------------------------------- */

typedef struct model {
  int at[L], closed;
  bool ended;
} model;

static int between(uint64_t *seed, int low, int high) {
  return low + draw_below(seed, high - low + 1);
}

static void try_block(kv_session *s, model *m, uint64_t *seed) {
  int l = between(seed, -1, L), n = between(seed, -1, 4),
      step = between(seed, -2, T + 2);
  bool known = l >= 0 && l < L;
  if (known && between(seed, 0, 2)) step = m->at[l] + n;
  if (between(seed, 0, 1)) n = 1;
  bool right = known && !m->ended && n >= 1 && step == m->at[l] + n &&
               step <= T && (m->at[l] < P ? step <= P : n == 1);
  int from = right ? m->at[l] : 0, of = known ? l : 0;
  float out[T * H * DV];
  kv_session_in a = {q[of][from], KV_F32, H * D, D};
  kv_session_in b = {k[of][from], KV_F32, G * D, D};
  kv_session_in c = {v[of][from], KV_F32, G * DV, DV};
  kv_session_out o = {out, KV_F32, H * DV, DV};
  const kv_session_in *key = between(seed, 0, 9) ? &b : NULL;
  kv_rc rc = kv_session_block(s, l, step, n, &a, key, &c,
                              between(seed, 0, 1) ? &o : NULL, &told);
  right = right && key;
  if ((rc == KV_OK) != right)
    fail_msg("layer %d, step %d, %d tokens: %d %s", l, step, n, rc, told.text);
  if (right) m->at[l] = step;
  if (rc) assert_true(told.text[0] != 0);
}

static void try_reading(kv_session *s, const model *m, uint64_t *seed) {
  uint32_t id[4] = {9, 9, 9, 77}, weight[3];
  float lse[H];
  int l = between(seed, -1, L), i = between(seed, -1, H), n = -1;
  bool known = l >= 0 && l < L;
  kv_rc rc =
      kv_session_lane(s, l, i, between(seed, -2, 3), id, weight, &n, &told);
  assert_int_equal(rc == KV_OK, known && i >= 0 && i < G);
  if (!rc) assert_true(n <= m->at[l]);
  rc = kv_session_view(s, l, i, between(seed, -2, 3), id, &n, &told);
  assert_int_equal(rc == KV_OK, known && i >= 0 && i < H && m->at[l] > P);
  assert_int_equal(id[3], 77);
  rc = kv_session_lse(s, l, lse, &told);
  assert_int_equal(rc == KV_OK, known && m->at[l] > P);
}

static void try_closing(kv_session *s, model *m, uint64_t *seed) {
  kv_session_bytes b;
  int step = between(seed, -1, T + 1);
  int least = m->at[0] < m->at[1] ? m->at[0] : m->at[1];
  bool right = !m->ended && step > m->closed && step <= least && step >= P;
  assert_int_equal(kv_session_end_step(s, step, &told) == KV_OK, right);
  if (right) m->closed = step;
  works(kv_session_ledger(s, &b, &told));
  assert_int_equal(b.step, m->closed);
  assert_int_equal(b.peak > 0, m->closed > 0);
  if (between(seed, 0, 9)) return;
  right = m->at[0] == m->at[1] && m->at[0] == T; /* not before, here */
  if (m->at[0] == m->at[1] && m->at[0] >= P && !right) return;
  assert_int_equal(kv_session_digest(s, NULL, &told) == KV_OK, right);
  m->ended = m->ended || right;
}

TEST(any_order) {
  kv_session_digests right = finish(start(KV_F32), KV_F32), d;
  int ended = 0;
  for (uint64_t i = 1; i <= 40; i++) {
    kv_session *s = start(KV_F32);
    model m = {0};
    uint64_t seed = i;
    for (int call = 0; call < 600; call++) {
      int what = between(&seed, 0, 5);
      if (what < 4)
        try_block(s, &m, &seed);
      else if (what == 4)
        try_reading(s, &m, &seed);
      else
        try_closing(s, &m, &seed);
    }
    if (m.at[0] == T && m.at[1] == T) {
      assert_int_equal(kv_session_digest(s, &d, NULL), KV_OK);
      same(&right, &d);
      ended++;
    }
    kv_session_close(s);
  }
  assert_true(ended > 20);
}

TEST(no_session) {
  kv_session_digests d;
  kv_session_bytes b;
  kv_session_in in = {q, KV_F32, 0, 0};
  float lse[H];
  kv_session_close(NULL);
  assert_int_equal(kv_session_lanes(NULL), 0);
  assert_string_equal(kv_session_spec(NULL), "");
  kv_rc rc[] = {kv_session_block(NULL, 0, 1, 1, &in, &in, &in, NULL, &told),
                kv_session_end_step(NULL, 1, &told),
                kv_session_lane(NULL, 0, 0, 0, NULL, NULL, NULL, &told),
                kv_session_view(NULL, 0, 0, 0, NULL, NULL, &told),
                kv_session_lse(NULL, 0, lse, &told),
                kv_session_ledger(NULL, &b, &told),
                kv_session_digest(NULL, &d, &told)};
  for (size_t i = 0; i < sizeof rc / sizeof *rc; i++)
    assert_int_equal(rc[i], KV_USAGE);
}

int main(void) { return tests_run("session calls", make_data, NULL); }
