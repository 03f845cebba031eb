/* SPDX-License-Identifier: Apache-2.0
 *
 * DeltaKV against plain loops of this file in binary64, which turn keys back,
 * rank references and multiply themselves; which tokens are what, and bytes by
 * the formula; the paper's shares, of which two do not follow from its own
 * equations; refusals.
 */
#include "ref/methods/deltakv.h"
#include "tests/methods/delta_account.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { T = DELTA_T, W = DELTA_W, H = DELTA_H, HID = 5, DC = 8 };

/* x^ of token i by the k nearest of the references list[0..n). */
static void decoded(const rig_case *c, const delta_weights *w, int i,
                    const int *list, int n, int k, double *out) {
  double x[W], b[W], z[DC], zm[DC], mean[W] = {0};
  bool used[T] = {false};
  int e = n < k ? n : k;
  delta_vector(c, i, x);
  for (int r = 0; r < e; r++) {
    int best = -1;
    double least = 0;
    for (int j = 0; j < n; j++) {
      delta_vector(c, list[j], b);
      if (used[j] || (best >= 0 && delta_far(x, b) >= least)) continue;
      best = j, least = delta_far(x, b);
    }
    used[best] = true;
    delta_vector(c, list[best], b);
    for (int v = 0; v < W; v++) mean[v] += b[v] / e;
  }
  memcpy(out, mean, sizeof mean);
  if (!w) return;
  delta_code(w, x, z);
  if (e) delta_code(w, mean, zm);
  for (int j = 0; e && j < DC; j++) z[j] -= zm[j];
  delta_decode(w, z, out);
  for (int v = 0; v < W; v++) out[v] += mean[v];
}

/* Entry i is what its latent vector and references decode to, to the bit. */
static void decodes_again(rig *r, const kv_residual *o, int i) {
  kv_lane *lane[H];
  float again[W], stored[W];
  kv_at at = rig_at(r);
  delta_lanes(r, lane);
  kv_residual_again(&at, lane, H, o, 1, &i, again);
  kv_vector_stored(&at, lane, H, i, stored);
  assert_memory_equal(again, stored, sizeof again);
}

/* sink 2, R 8, stride 5: of 60 tokens, 2 .. 2 + (58 / 8 - 1) * 8 - 1 = 49 are
 * compressed but for 5, 10, .. 45. */
static void follows(const delta_weights *w, const char *spec, int k) {
  rig_case c = delta_case(w);
  int list[T] = {0, 1}, n = 2, coded = 0;
  double want[W];
  rig *r = rig_open(&c, spec);
  rig_to(r, T);
  for (int i = 2; i < T; i++) {
    const kv_lane *l = rig_lane(r, 0);
    bool reference = i % 5 == 0, latent = i < 50 && !reference;
    assert_int_equal(l->k[i].format != KV_RAW, latent);
    assert_int_equal(l->v[i].format, l->k[i].format);
    if (reference) list[n++] = i;
    if (!latent) continue;
    coded++;
    decoded(&c, w, i, list, n, k, want);
    assert_true(delta_off(r, i, want) < 2e-5);
    if (rig_backend() == &kv_backend_ref) /* which has the means to */
      decodes_again(r, &((const params *)rig_at(r).params)->by, i);
    for (int j = 0; j < k; j++)
      assert_true(kv_lane_named(l, i)[j] < i &&
                  (kv_lane_named(l, i)[j] >= 0) == (j < n));
  }
  kv_bytes sum = {0};
  for (int g = 0; g < H; g++) kv_lane_bytes(rig_lane(r, g), &sum);
  assert_int_equal(coded, 39);
  assert_int_equal(sum.payload, (T - 39) * W * 4 + 39 * (w ? 4 * DC : 0));
  assert_int_equal(sum.metadata, 39 * (4 * k + 4));
  rig_close(r);
  rig_data_free(&c);
}

#define SMALL "deltakv:retrieve=all:full=7:sink=2:recent=8:stride=5:latent=fp32"

TEST(worked) {
  delta_weights w;
  follows(NULL, SMALL ":compressor=none", 4);
  follows(NULL, SMALL ":compressor=none:nearest=1", 1);
  delta_draw(&w, true, HID, DC);
  follows(&w, SMALL, 4);
  delta_draw(&w, false, HID, DC);
  follows(&w, SMALL ":nearest=3", 3);
}

/* --- the paper's shares -------------------------------------------------- */

static double kr(double full, double layers, double code, double by) {
  return full / layers + (layers - full) / layers * (.1 + code / by);
}

static bool near(double a, double b) { return fabs(a - b) < 5e-5; }

TEST(shares) {
  const kv_delta d = {512, KV_LATENT_FP16, 0, 4, 0, 0, 0};
  assert_true(near(kr(5, 32, 512, 2048), .4516));
  assert_true(near(kr(4, 32, 512, 2048), .4312));
  assert_true(near(kr(5, 32, 512 / 4., 2048), .2934));
  assert_true(near(kr(6, 28, 512, 2048), .4893));
  assert_true(near(kr(9, 64, 512, 2048), .4414));
  /* CR 30 is of r = 0.1704, and of 0.3 it is 40.9 */
  assert_true(near(5 / 32. + 27 / 32. * .1704, .3000));
  assert_true(near(5 / 32. + 27 / 32. * .3, .4094));
  /* all in 4 bits, of z once: 11.3, not 7.2 */
  assert_true(near((5 / 32. + 27 / 32. * .1) / 4 + 27 / 32. * .0625, .1129));
  /* what a block is charged: 1024 of codes, 16 of ids, 4 of a position */
  assert_int_equal(kv_format_delta.size(&d, 1, 128).codes, 1024);
  assert_int_equal(kv_format_delta.size(&d, 1, 128).metadata, 20);
  assert_true(
      near(5 / 32. + 27 / 32. * (.1 + (1024 + 16 * .9375) / 4096), .4547));
}

/* --- laws ---------------------------------------------------------------- */

TEST(laws) {
  static const char *const more[] = {":compressor=none",
                                     ":compressor=none:refs=recon",
                                     ":compressor=none:self=yes:phase=block",
                                     ":compressor=none:sink=0:refs=recon",
                                     ":compressor=none:tier=host:stride=1",
                                     ":compressor=none:stride=4096:nearest=9"};
  rig_case c = delta_case(NULL);
  char spec[160];
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    snprintf(spec, sizeof spec, "deltakv:retrieve=all:full=7:recent=8%s",
             more[i]);
    rig_law(&c, spec, NULL, NULL);
  }
  rig_law_dense(&c, "deltakv:compressor=none:recent=1000");
  rig_data_free(&c);
}

#define FAILS(what)                                                            \
  "layer 0, step 40: the latent vector of token " what "; take another "       \
  "`latent`, or other weights"

/* 8 .. 33 are compressed after the prompt, but for 10, 20, 30. */
TEST(too_large) {
  delta_weights w;
  delta_draw(&w, false, HID, DC);
  rig_case c = delta_case(&w);
  float *v = (float *)(uintptr_t)c.v + T * DELTA_DV;
  v[21 * DELTA_DV] = 1e8f;
  rig_fails(&c, "deltakv:full=7:recent=4", FAILS("21 is not finite as stored"));
  rig_fails(&c, "deltakv:full=7:recent=4:latent=int4:group=0",
            FAILS("21 is not finite as stored"));
  for (int i = 0; i < W * HID; i++) w.x[KV_LATENT_BACK][i] *= 1e34f;
  rig_fails(&c, "deltakv:full=7:recent=4:latent=fp32",
            FAILS("21 decodes to what is not finite"));
  rig_fails(&c, "deltakv:full=7:recent=4:latent=fp32:refs=recon",
            FAILS("21 decodes to what is not finite"));
  w.x[KV_LATENT_OUT_BIAS][1] = NAN;
  rig_fails(&c, "deltakv:full=7:recent=4:latent=fp32",
            FAILS("8 is not finite as stored"));
  rig_data_free(&c);
}

TEST(opening) {
  delta_weights w;
  delta_draw(&w, true, HID, DC);
  rig_case c = delta_case(&w);
  rig_law_refused(&c, "deltakv:full=7:top=4:r=0.5", KV_REFUSED, "top=4", "r=");
  rig_law_refused(&c, "deltakv:full=7:self=yes:refs=recon", KV_REFUSED,
                  "self=yes", "refs=raw");
  rig_law_refused(&c, "deltakv:full=7:latent=int4:group=32", KV_REFUSED,
                  "cannot pack", "of 32");
  w.tensor[KV_LATENT_IN].dim[1] = 99;
  rig_law_refused(&c, "deltakv:full=7", KV_REFUSED, "compress.in.weight",
                  "99]");
  w.tensor[KV_LATENT_IN].dim[1] = W;
  w.tensor[KV_LATENT_BACK].data = NULL;
  rig_law_refused(&c, "deltakv:full=7", KV_REFUSED, "decompress.out.weight",
                  "layer 0");
  c.asset = NULL;
  rig_law_refused(&c, "deltakv:full=7:references=none:compressor=none",
                  KV_REFUSED, "references=none", "compressor=none");
  rig_data_free(&c);
}

int kv_test_deltakv_chunks(void); /* deltakv_chunks.c */
int kv_test_deltakv_kept(void);   /* deltakv_kept.c */
int kv_test_deltakv_laws(void);   /* deltakv_laws.c */
int kv_test_deltakv_reads(void);  /* deltakv_reads.c */

int kv_test_deltakv(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(worked), cmocka_unit_test(shares),
      cmocka_unit_test(laws), cmocka_unit_test(too_large),
      cmocka_unit_test(opening)};
  return cmocka_run_group_tests_name("deltakv", tests, NULL, NULL) +
         kv_test_deltakv_chunks() + kv_test_deltakv_kept() +
         kv_test_deltakv_laws() + kv_test_deltakv_reads();
}
