/* SPDX-License-Identifier: Apache-2.0
 *
 * Palu against plain loops of this file in binary64, which turn keys back and
 * multiply themselves; ranks by hand; bytes by the formula; what a block
 * decodes to again, to the bit; full rank gives a token back; the squares that
 * are lost are those of the directions left out; on a bundled trace more
 * directions lose less; what each token says that cannot be coded; refusals.
 */
#include "ref/methods/palu.h"
#include "ref/parts/latents.h"
#include "tests/methods/palu_bases.h"
#include "tests/support/bundled.h"
#include "traces/decisions/asset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = PALU_T, D = PALU_D, DV = PALU_DV, H = PALU_H, G = PALU_G };
enum { KW = PALU_KW, VW = PALU_VW, W = H * (D + DV), PARTS = 2 * G };

/* --- the definition ------------------------------------------------------ */

static void vector(const rig_case *c, int t, double *out) {
  for (int g = 0; g < H; g++) {
    for (int i = 0; i < D / 2; i++) {
      const float *y = &c->k[(g * T + t) * D + i];
      double a = -t * (double)palu_freq[i], one = (double)y[0],
             other = (double)y[D / 2];
      out[g * D + i] = one * cos(a) - other * sin(a);
      out[g * D + i + D / 2] = other * cos(a) + one * sin(a);
    }
    for (int x = 0; x < DV; x++)
      out[H * D + g * DV + x] = (double)c->v[(g * T + t) * DV + x];
  }
}

static const float *basis(const palu_bases *b, int part, int *first,
                          int *width) {
  int g = part % G, side = part / G;
  *width = side ? VW : KW;
  *first = side ? H * D + g * VW : g * KW;
  return side ? b->value[g][0] : b->key[g][0];
}

/* Squares in direction j of a part. */
static double along(const palu_bases *b, int part, int j, const double *x) {
  int first, width;
  const float *row = basis(b, part, &first, &width) + j * width;
  double z = 0;
  for (int i = 0; i < width; i++) z += (double)row[i] * x[first + i];
  return z;
}

static void decoded(const palu_bases *b, const int *rank, const double *x,
                    double *out) {
  memset(out, 0, W * sizeof *out);
  for (int p = 0; p < PARTS; p++)
    for (int j = 0; j < rank[p]; j++) {
      int first, width;
      const float *row = basis(b, p, &first, &width) + j * width;
      double z = along(b, p, j, x);
      for (int i = 0; i < width; i++) out[first + i] += z * (double)row[i];
    }
}

static const kv_lowrank *of(rig *r) {
  return &((const params *)rig_at(r).params)->by;
}

static void stored(rig *r, int i, bool as_recorded, float *out) {
  kv_at at = rig_at(r);
  kv_lane *lane[H];
  for (int g = 0; g < rig_lanes(r); g++) lane[g] = (kv_lane *)rig_lane(r, g);
  (as_recorded ? kv_vector_recorded : kv_vector_stored)(&at, lane, rig_lanes(r),
                                                        i, out);
}

/* What the bytes of entry i decode to, by the written order. */
static void again(rig *r, const palu_bases *b, int i, float *out) {
  const kv_lane *lane[H];
  const kv_lowrank *o = of(r);
  char block[512];
  float z[W];
  int from = 0;
  for (int g = 0; g < H; g++) lane[g] = rig_lane(r, g);
  kv_lanes_block(lane, H, i, block);
  kv_delta_get(rig_at(r).kernels, &o->how, block, z);
  memset(out, 0, W * sizeof *out);
  for (int p = 0; p < PARTS; p++) {
    int first, width;
    const float *row = basis(b, p, &first, &width);
    for (int j = 0; j < o->rank[p]; j++, from++)
      for (int x = 0; x < width; x++)
        out[first + x] = kv_fma(z[from], row[j * width + x], out[first + x]);
  }
}

/* Everything is coded at once, of these ranks and bytes a token. */
static void follows(const palu_bases *b, const char *spec, const int *rank,
                    double near, int codes, int metadata) {
  rig_case c = palu_case(b);
  rig *r = rig_open(&c, spec);
  kv_bytes sum = {0};
  rig_to(r, T);
  for (int p = 0; p < PARTS; p++) assert_int_equal(of(r)->rank[p], rank[p]);
  for (int i = 0; i < T; i++) {
    double x[W], want[W];
    float got[W], more[W];
    vector(&c, i, x);
    decoded(b, rank, x, want);
    stored(r, i, false, got);
    again(r, b, i, more);
    assert_memory_equal(got, more, sizeof got);
    for (int v = 0; v < W; v++)
      assert_true(fabs((double)got[v] - want[v]) < near);
  }
  for (int g = 0; g < H; g++) kv_lane_bytes(rig_lane(r, g), &sum);
  assert_int_equal(sum.payload, T * codes);
  assert_int_equal(sum.metadata, T * metadata);
  rig_close(r);
  rig_data_free(&c);
}

TEST(worked) {
  palu_bases b;
  palu_fill(&b);
  /* 4 of 8; 3 of 6 are 1.5 units, to the even 2 */
  follows(&b, "palu:unit=2:latent=fp32", (int[]){4, 4, 4, 4}, 2e-6, 4 * 16, 0);
  follows(&b, "palu:unit=2", (int[]){4, 4, 4, 4}, 4e-3, 2 * 16, 0);
  follows(&b, "palu:unit=2:latent=bf16", (int[]){4, 4, 4, 4}, 3e-2, 2 * 16, 0);
  follows(&b, "palu:unit=2:latent=int4:group=2", (int[]){4, 4, 4, 4}, .2, 8,
          4 * 8);
  /* 2.5 of 8, to the even 2; 1.875 of 6 */
  follows(&b, "palu:share=0.3125:unit=1:latent=fp32", (int[]){2, 2, 2, 2}, 2e-6,
          4 * 8, 0);
  /* .25 of 8; 1.5 of 6 are .5 units of 3: to the even 0, so one */
  follows(&b, "palu:share=0.25:unit=3:latent=fp32", (int[]){3, 3, 3, 3}, 2e-6,
          4 * 12, 0);
  follows(&b, "palu:share=1:latent=fp32", (int[]){8, 8, 6, 6}, 2e-6, 4 * 28, 0);
}

/* As many as uniform's 4 parts of 4 in units of 2: one each, then by what two
 * directions win: values .167, .167 of the first group, again, then keys of the
 * second, .16; those of the first have .09 left. */
TEST(by_energy) {
  palu_bases b;
  palu_fill(&b);
  follows(&b, "palu:unit=2:latent=fp32:allocation=energy", (int[]){2, 2, 6, 6},
          2e-6, 4 * 16, 0);
  for (int i = 0; i < VW; i++) b.value_energy[1][i] = .07f;
  follows(&b, "palu:unit=2:latent=fp32:allocation=energy", (int[]){2, 4, 6, 4},
          2e-6, 4 * 16, 0);
}

/* --- laws ---------------------------------------------------------------- */

/* Squares of what numbers first .. first + width - 1 of tokens 0 .. n - 1 lost,
 * and of what they were. */
static double lost(rig *r, int n, int first, int width, double *all) {
  double sum = 0;
  for (int i = 0; i < n; i++) {
    float x[256], y[256];
    stored(r, i, true, x);
    stored(r, i, false, y);
    for (int v = first; v < first + width; v++) {
      sum += pow((double)y[v] - (double)x[v], 2);
      *all += pow((double)x[v], 2);
    }
  }
  return sum;
}

/* The bound of ref/methods/palu.c for a part of full rank in fp32. */
TEST(full_rank) {
  palu_bases b;
  palu_fill(&b);
  rig_case c = palu_case(&b);
  rig *r = rig_open(&c, "palu:share=1:latent=fp32");
  rig *dense = rig_open(&c, "dense");
  rig_to(r, T), rig_to(dense, T);
  for (int p = 0; p < PARTS; p++) {
    int first, width;
    double all = 0;
    basis(&b, p, &first, &width);
    double far = sqrt(lost(r, T, first, width, &all));
    assert_true(far <= 2 * (width + 1) * sqrt(width) * 0x1p-24 * sqrt(all));
  }
  for (int h = 0; h < H; h++)
    for (int x = 0; x < DV; x++)
      assert_true(fabsf(rig_out(r, h)[x] - rig_out(dense, h)[x]) < 4e-6f);
  rig_close(r), rig_close(dense);
  rig_data_free(&c);
}

TEST(lost_is_left_out) {
  palu_bases b;
  palu_fill(&b);
  rig_case c = palu_case(&b);
  rig *r = rig_open(&c, "palu:unit=2:latent=fp32");
  double all = 0, out = 0, exact[W];
  rig_to(r, T);
  for (int i = 0; i < T; i++) {
    vector(&c, i, exact);
    for (int p = 0; p < PARTS; p++)
      for (int j = 4; j < (p < G ? KW : VW); j++)
        out += pow(along(&b, p, j, exact), 2);
  }
  assert_true(fabs(lost(r, T, 0, W, &all) - out) < 1e-5 * out);
  rig_close(r);
  rig_data_free(&c);
}

TEST(laws) {
  static const char *const more[] = {"", ":share=1", ":allocation=energy",
                                     ":latent=int4:group=1", ":share=0.02"};
  palu_bases b;
  char spec[80];
  palu_fill(&b);
  rig_case c = palu_case(&b);
  for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
    snprintf(spec, sizeof spec, "palu:unit=2%s", more[i]);
    rig_law(&c, spec, NULL, NULL);
  }
  rig_data_free(&c);
}

/* --- a bundled trace ----------------------------------------------------- */

static float *widened(const kv_trace *t, int rows, int d, const void *in) {
  size_t n = (size_t)rows * (size_t)t->shape.n_tokens * (size_t)d;
  float *out = malloc(n * sizeof *out);
  assert_non_null(out);
  kv_kernels_best()->widen(t->shape.dtype, in, n, out);
  return out;
}

static double lost_by(const rig_case *c, const char *spec) {
  rig *r = rig_open(c, spec);
  double all = 0, sum = lost(r, c->prompt_len, 0, 256, &all);
  rig_close(r);
  return sum;
}

TEST(more_is_nearer) {
  char path[KV_TEXT_MAX];
  kv_asset *a = NULL;
  kv_err e = {0};
  kv_trace *t = bundled_open("text_400.safetensors");
  if (kv_asset_beside(t, "palu", sizeof path, path, &e) ||
      kv_asset_open(path, &kv_lowrank_kind, t, t->shape.prompt_len, &a, &e))
    fail_msg("%s", e.text);
  const kv_layer_data *data = &t->layer[4].data;
  float *q = widened(t, 8, 64, data->q), *k = widened(t, 2, 64, data->k),
        *v = widened(t, 2, 64, data->v);
  /* More tokens than the blocks of a device code at once. */
  const rig_case c = RIG_SHAPE(
      8, 2, 64, 64, t->shape.n_tokens, 160, .n_layers = 6, .layer = data->layer,
      .q = q, .k = k, .v = v, .inv_freq = t->rope.inv_freq, .asset = a);
  static const char *const spec[] = {"palu:share=0.05:unit=1",
                                     "palu:share=0.25", "palu:share=0.5",
                                     "palu:share=0.75", "palu:share=1"};
  for (int i = 0; i + 1 < 5; i++) {
    double less = lost_by(&c, spec[i]), more = lost_by(&c, spec[i + 1]);
    if (!(more < .8 * less))
      fail_msg("%s loses %g, %s %g", spec[i], less, spec[i + 1], more);
  }
  free(q), free(k), free(v);
  kv_asset_close(a);
  kv_trace_close(t);
}

/* --- what cannot be coded ------------------------------------------------ */

#define LATENT_FAILS(token)                                                    \
  "the latent vector of token " token " is not finite as stored; take "        \
  "another `latent`, or other weights"
#define DECODED_FAILS(token)                                                   \
  "the latent vector of token " token " decodes to what is not finite; take "  \
  "another `latent`, or other weights"

TEST(too_large) {
  palu_bases b;
  palu_fill(&b);
  rig_case c = palu_case(&b);
  float *v = (float *)(uintptr_t)c.v, *last = v + (H - 1) * T * DV;
  last[45 * DV] = 1e6f; /* of a decode step, and of the last group alone */
  rig_fails(&c, "palu:unit=2", "layer 0, step 46: " LATENT_FAILS("45"));
  rig_fails(&c, "palu:unit=2:latent=int4:group=2",
            "layer 0, step 46: " LATENT_FAILS("45"));
  /* Directions so long that z of token 5 can be stored, what it decodes to not;
   * of a batch what is stored is looked at before. */
  float *value = (float *)b.value;
  for (int i = 0; i < G * VW * VW; i++) value[i] *= 1e10f;
  v[5 * DV] = v[30 * DV] = 1e20f;
  rig_fails(&c, "palu:unit=2:latent=bf16",
            "layer 0, step 40: " DECODED_FAILS("5"));
  v[30 * DV] = v[31 * DV] = 1e30f;
  rig_fails(&c, "palu:unit=2:latent=fp32",
            "layer 0, step 40: " LATENT_FAILS("30"));
  b.key[0][0][3] = NAN;
  rig_fails(&c, "palu:unit=2", "layer 0, step 40: " LATENT_FAILS("0"));
  rig_data_free(&c);
}

/* --- refusals ------------------------------------------------------------ */

TEST(opening) {
  palu_bases b;
  palu_fill(&b);
  rig_case c = palu_case(&b);
  rig_law_refused(&c, "palu:unit=2:latent=int4:group=3", KV_REFUSED,
                  "cannot pack", "of 3");
  rig_law_refused(&c, "palu:unit=3:allocation=energy", KV_REFUSED,
                  "allocation=energy", "8 directions of keys");
  b.text.value = "4";
  rig_law_refused(&c, "palu:unit=2", KV_REFUSED, "blocks of 4", "unit=2");
  b.text.value = "1";
  b.tensor[KV_KEY_BASIS].dim[1] = b.tensor[KV_KEY_ENERGY].dim[1] = 5;
  rig_law_refused(&c, "palu:unit=2:share=0.75", KV_REFUSED,
                  "6 directions of keys", "has 5");
  b.tensor[KV_KEY_ENERGY].dim[1] = 6;
  rig_law_refused(&c, "palu:unit=2", KV_REFUSED, "key.energy of layer 0",
                  "[2, 6] and should be [2, 5]");
  b.tensor[KV_KEY_BASIS].dim[1] = b.tensor[KV_KEY_ENERGY].dim[1] = KW;
  b.tensor[KV_VALUE_BASIS].dim[2] = 7;
  rig_law_refused(&c, "palu:unit=2", KV_REFUSED, "value.basis of layer 0",
                  "[2, 6, 7]");
  b.tensor[KV_KEY_BASIS].dim[0] = 3;
  rig_law_refused(&c, "palu:unit=2", KV_REFUSED, "3 groups", "the 4");
  rig_data_free(&c);
}

RIG_TESTS(palu, RIG_CASE(worked), RIG_CASE(by_energy), RIG_CASE(full_rank),
          RIG_CASE(lost_is_left_out), RIG_CASE(laws), RIG_CASE(more_is_nearer),
          RIG_CASE(too_large), RIG_CASE(opening))
