/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of DeltaKV: what every token of a layer is, which tokens a latent vector
 * names, orthonormal maps give the input back (swiglu's only where vectors hold
 * a constant), what is attended of all tokens and of a few, and latent vectors
 * of 4 bits.
 */
#include "ref/methods/deltakv.h"
#include "tests/methods/delta_account.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { T = DELTA_T, W = DELTA_W, H = DELTA_H, SINK = 2, R = 8 };

#define EACH "deltakv:retrieve=all:full=7:sink=2:recent=8:stride=5"
#define ALL EACH ":latent=fp32"

/* Tokens SINK .. END - 1 are compressed of T. */
enum { END = SINK + ((T - SINK) / R - 1) * R };

static const kv_residual *how(rig *r) {
  return &((const params *)rig_at(r).params)->by;
}

/* --- what each token is -------------------------------------------------- */

/* Where the block that token i came into began: at END of then. */
static int block_of(const rig_case *c, int i) {
  int first = SINK + ((c->prompt_len - SINK) / R - 1) * R;
  return i < first ? SINK : SINK + (i - SINK) / R * R;
}

/* A sink, one of the newest, a reference, or compressed, and one of these
 * alone; the ones that it names are references before it, as many as are. */
static void parts_of(const char *more, bool self, bool block) {
  rig_case c = delta_case(NULL);
  char spec[160];
  int count[4] = {0}, before = 0;
  snprintf(spec, sizeof spec, ALL ":compressor=none%s", more);
  rig *r = rig_open(&c, spec);
  rig_to(r, T);
  const kv_lane *l = rig_lane(r, 0);
  for (int i = 0; i < T; i++) {
    int from = block ? block_of(&c, i) : 0;
    bool sink = i < SINK, newest = i >= END;
    bool reference = !sink && !newest && (i - from) % 5 == 0;
    bool coded = l->k[i].format != KV_RAW;
    count[sink ? 0 : newest ? 1 : reference ? 2 : 3]++;
    assert_int_equal(coded, !sink && !newest && (self || !reference));
    if (coded) {
      int may = before + (self && reference), k = 0;
      const int32_t *named = kv_lane_named(l, i);
      for (; k < 4 && named[k] != KV_NO_TOKEN; k++) {
        int f = block ? block_of(&c, named[k]) : 0;
        assert_true(named[k] < i || (self && named[k] == i));
        assert_true(named[k] < SINK || (named[k] - f) % 5 == 0);
        for (int j = 0; j < k; j++) assert_int_not_equal(named[j], named[k]);
      }
      assert_int_equal(k, may < 4 ? may : 4);
    }
    before += sink || reference;
  }
  assert_int_equal(count[0], SINK);
  assert_int_equal(count[1], T - END);
  assert_int_equal(count[2] + count[3], END - SINK);
  rig_close(r);
  rig_data_free(&c);
}

TEST(partition) {
  parts_of("", false, false);
  parts_of(":phase=block", false, true);
  parts_of(":self=yes", true, false);
  parts_of(":self=yes:phase=block", true, true);
}

/* --- orthonormal maps ---------------------------------------------------- */

static void given_back(rig_case c, const char *more, double most) {
  char spec[160];
  double want[W];
  int coded = 0;
  snprintf(spec, sizeof spec, ALL "%s", more);
  rig *r = rig_open(&c, spec);
  rig_to(r, T);
  for (int i = 0; i < T; i++) {
    delta_vector(&c, i, want);
    coded += rig_lane(r, 0)->k[i].format != KV_RAW;
    if (!(delta_off(r, i, want) <= most))
      fail_msg("%s: token %d is off by %g", spec, i, delta_off(r, i, want));
  }
  assert_true(coded > 30);
  rig_close(r);
  rig_data_free(&c);
}

/* The largest difference of outputs of a layer that follows from dense's. */
static void as_dense(const delta_weights *w, const char *spec) {
  rig_case c = delta_case(w);
  c.layer = 1;
  rig *whole = rig_open(&c, "dense");
  c.layer = 0;
  rig *chooses = rig_open(&c, spec);
  c.layer = 1;
  rig *follows = rig_below(&c, spec, chooses);
  for (int step = c.prompt_len + 1; step <= T; step++) {
    rig_to(whole, step);
    rig_to(chooses, step);
    rig_to(follows, step);
    for (int h = 0; h < H; h++) {
      assert_int_equal(rig_view(follows, h)->entries, step);
      for (int x = 0; x < DELTA_DV; x++)
        assert_true(fabs((double)rig_out(follows, h)[x] -
                         (double)rig_out(whole, h)[x]) < 2e-4);
    }
  }
  rig_close(follows);
  rig_close(chooses);
  rig_close(whole);
  rig_data_free(&c);
}

TEST(orthonormal) {
  static delta_weights w;
  delta_orthonormal(&w);
  given_back(delta_case(&w), "", 1e-4);
  given_back(delta_case(&w), ":phase=block:self=yes:nearest=1", 1e-4);
  given_back(delta_case(&w), ":refs=recon", 1e-4);
  given_back(delta_case(&w), ":references=none", 1e-4);
  w.layer = 1;
  as_dense(&w, "deltakv:full=0:r=1:sink=2:recent=8:stride=5:latent=fp32");
}

/* The layer's k and v times `by`; its vectors then end in `by`. */
static rig_case ending_in(const delta_weights *w, float by) {
  rig_case c = delta_case(w);
  float *k = (float *)(uintptr_t)c.k, *v = (float *)(uintptr_t)c.v;
  for (int x = 0; x < H * T * DELTA_D; x++) k[x] *= by;
  for (int x = 0; x < H * T * DELTA_DV; x++) v[x] *= by;
  for (int i = 0; i < T; i++) v[((H - 1) * T + i + 1) * DELTA_DV - 1] = by;
  return c;
}

/* Three products by orthonormal maps and one by a power of two; each rounds the
 * length |x| <= sqrt(w) by (w + 1) sqrt(w) 2^-24 of it at most, of x and of the
 * mean: 6 (w + 1) w 2^-24, to which turning a key adds less than w 2^-24. */
TEST(saturated) {
  static delta_weights w;
  double most = (6 * (W + 1) + 1) * W * 0x1p-24;
  delta_saturated(&w);
  given_back(ending_in(&w, 1), "", most);
  given_back(ending_in(&w, 1), ":phase=block:self=yes:nearest=1", most);
  given_back(ending_in(&w, 1), ":refs=recon", most);
  given_back(ending_in(&w, 1), ":references=none", most);
}

/* |SiLU(y)| <= |y|, and nothing is added: f_d(f_c(x)) is of the second order
 * in x, so no swiglu gives back every vector. The largest element of what is
 * left of vectors of about 2^-10. */
static double left_of_small(const delta_weights *w) {
  rig_case c = ending_in(w, 0x1p-10f);
  double none[W] = {0}, most = 0;
  rig *r = rig_open(&c, ALL ":references=none");
  rig_to(r, T);
  for (int i = SINK; i < END; i++)
    if (rig_lane(r, 0)->k[i].format != KV_RAW)
      most = fmax(most, delta_off(r, i, none));
  rig_close(r);
  rig_data_free(&c);
  return most;
}

TEST(small_is_lost) {
  static delta_weights w;
  delta_saturated(&w);
  assert_true(left_of_small(&w) < 0x1p-16);
  delta_draw(&w, true, 5, 8);
  assert_true(left_of_small(&w) < 0x1p-16);
  delta_orthonormal(&w); /* which gelu does */
  assert_true(left_of_small(&w) > 0x1p-11);
}

/* --- a few of them ------------------------------------------------------- */

/* The best of sink .. end - 1 by the largest q . k over the layer's heads, the
 * sinks and the newest are what the layer below attends. */
static int chosen(const rig_case *c, int step, int end, int top, bool *in) {
  double best[T];
  for (int i = 0; i < step; i++) {
    in[i] = i < SINK || i >= end;
    best[i] = -INFINITY;
    for (int h = 0; h < H; h++) {
      double dot = 0;
      for (int x = 0; x < DELTA_D; x++)
        dot += (double)c->q[(h * T + step - 1) * DELTA_D + x] *
               (double)c->k[(h * T + i) * DELTA_D + x];
      best[i] = fmax(best[i], dot);
    }
  }
  for (int n = 0; n < top && n < end - SINK; n++) {
    int at = -1;
    for (int i = SINK; i < end; i++)
      if (!in[i] && (at < 0 || best[i] > best[at])) at = i;
    in[at] = true;
  }
  int sum = 0;
  for (int i = 0; i < step; i++) sum += in[i];
  return sum;
}

static void few(const char *more, int top, double share) {
  rig_case c = delta_case(NULL);
  char spec[160];
  uint32_t id[T];
  bool in[T];
  snprintf(spec, sizeof spec,
           "deltakv:compressor=none:full=0:sink=2:recent=8:stride=5%s", more);
  rig *chooses = rig_open(&c, spec);
  c.layer = 1;
  rig *follows = rig_below(&c, spec, chooses);
  for (int step = c.prompt_len + 1; step <= T; step++) {
    /* compressed when the step before had ended */
    int end = SINK + ((step - 1 - SINK) / R - 1) * R;
    int k = top ? top : (int)(share * (end - SINK));
    int n = chosen(&c, step, end, k, in);
    rig_to(chooses, step);
    rig_to(follows, step);
    for (int h = 0; h < H; h++) {
      assert_int_equal(rig_view(chooses, h)->entries, step);
      assert_int_equal(rig_seen(follows, h, id), n);
      for (int i = 0; i < n; i++) assert_true(in[id[i]]);
    }
  }
  rig_close(follows);
  rig_close(chooses);
  rig_data_free(&c);
}

TEST(top) {
  few(":top=5", 5, 0);
  few(":top=1000", 1000, 0);
  few(":r=0.25", 0, 0.25);
}

/* --- four bits ----------------------------------------------------------- */

/* Of token i: its latent vector is stored to half a step of the group's codes,
 * scale and minimum having been rounded to fp16; what it decodes to is its row.
 */
static void four_bits(const rig_case *c, rig *r, const delta_weights *w, int i,
                      int group) {
  double x[W], b[W], mean[W] = {0}, z[DELTA_MOST], zm[DELTA_MOST];
  float got[DELTA_MOST];
  char block[4 * DELTA_MOST];
  kv_lane *lane[H];
  delta_lanes(r, lane);
  const int32_t *named = kv_lane_named(lane[0], i);
  int n = 0;
  for (; n < 4 && named[n] != KV_NO_TOKEN; n++) {
  }
  for (int j = 0; j < n; j++) {
    delta_vector(c, named[j], b);
    for (int v = 0; v < W; v++) mean[v] += b[v] / n;
  }
  delta_vector(c, i, x);
  delta_code(w, x, z);
  delta_code(w, mean, zm);
  for (int j = 0; j < w->latent; j++) z[j] -= zm[j];
  kv_lanes_block((const kv_lane *const *)lane, H, i, block);
  kv_delta_get(kv_kernels_best(), &how(r)->how[KV_CODED_LATENT], block, got);
  for (int g = 0; g < w->latent; g += group) {
    double least = z[g], most = z[g];
    for (int j = g; j < g + group; j++) {
      least = fmin(least, z[j]);
      most = fmax(most, z[j]);
    }
    double step = (most - least) / 15, rounding = fmax(fabs(least), fabs(most));
    for (int j = g; j < g + group; j++)
      assert_true(fabs((double)got[j] - z[j]) <
                  step * 0.51 + rounding * 0x1p-10 + 1e-5);
  }
  for (int j = 0; j < w->latent; j++) z[j] = (double)got[j];
  delta_decode(w, z, x);
  for (int v = 0; v < W; v++) x[v] += mean[v];
  assert_true(delta_off(r, i, x) < 1e-4);
}

static void replayed_in_four(delta_weights *w, const char *more, int group) {
  rig_case c = delta_case(w);
  char spec[160];
  kv_bytes sum = {0};
  int coded = 0;
  snprintf(spec, sizeof spec, EACH ":latent=int4%s", more);
  rig *r = rig_open(&c, spec);
  rig_to(r, T);
  for (int i = 0; i < T; i++)
    if (rig_lane(r, 0)->k[i].format != KV_RAW) {
      four_bits(&c, r, w, i, group);
      coded++;
    }
  for (int g = 0; g < H; g++) kv_lane_bytes(rig_lane(r, g), &sum);
  assert_int_equal(sum.payload, (T - coded) * W * 4 + coded * w->latent / 2);
  assert_int_equal(sum.metadata, coded * (4 * w->latent / group + 4 * 4 + 4));
  rig_close(r);
  rig_data_free(&c);
}

TEST(int4) {
  static delta_weights w;
  delta_draw(&w, true, 5, 8);
  replayed_in_four(&w, "", 8);
  delta_draw(&w, true, 5, 64);
  replayed_in_four(&w, "", 64);
  replayed_in_four(&w, ":group=32", 32);
  delta_draw(&w, false, 6, 64);
  replayed_in_four(&w, ":group=16", 16);
  delta_draw(&w, true, 5, 6);
  rig_case c = delta_case(&w);
  rig_law_refused(&c, "deltakv:full=7:latent=int4", KV_REFUSED, "6 elements",
                  "multiples of 8");
  rig_data_free(&c);
}

RIG_TESTS(deltakv_laws, RIG_CASE(partition), RIG_CASE(orthonormal),
          RIG_CASE(saturated), RIG_CASE(small_is_lost), RIG_CASE(top),
          RIG_CASE(int4))
