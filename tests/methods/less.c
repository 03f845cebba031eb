/* SPDX-License-Identifier: Apache-2.0
 *
 * LESS. By hand: rank 1, hidden width 1, every weight 1, so that phi(x) =
 * psi(x) / 2 = g(g(x_0 + x_1)), g = GELU, and the state of two tokens is a sum
 * of two. Then on drawn weights: the state is, to the bit, that of a plain
 * account of what goes at each compression; outputs are the paper's formula in
 * binary64; what stays is h2o's, or with policy=lambda streamingllm's; nothing
 * gone is dense.
 */
#include "ref/methods/less.h"
#include "ref/ground/activation.h"
#include "ref/parts/parts.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEADS = 4, KV = 2, D = 8, DV = 6, HIDDEN = 5, RANK = 3, T = 40 };

typedef struct weights {
  float data[TENSORS][HEADS * HIDDEN * D];
  kv_tensor tensor[TENSORS];
  int layer;
  kv_tensor_ask ask[TENSORS + 1];
  kv_asset asset;
} weights;

static void shape_of(weights *w, int which, const char *name, int heads,
                     int rows, int columns) {
  int64_t n = (int64_t)heads * rows * (columns ? columns : 1);
  w->ask[which] = (kv_tensor_ask){.name = name, .rank = columns ? 3 : 2};
  w->tensor[which] = (kv_tensor){w->data[which], n, {heads, rows, columns}};
}

static void shapes(weights *w, int heads, int kv, int d, int h, int r) {
  memset(w, 0, sizeof *w);
  shape_of(w, QUERY_IN, "layers.*.query.in.weight", heads, h, d);
  shape_of(w, QUERY_OUT, "layers.*.query.out.weight", heads, r, h);
  shape_of(w, KEY_IN, "layers.*.key.in.weight", kv, h, d);
  shape_of(w, KEY_OUT, "layers.*.key.out.weight", kv, r, h);
  shape_of(w, KEY_SCALE, "layers.*.key.scale", kv, r, 0);
  shape_of(w, KEY_MIX, "layers.*.key.mix.weight", kv, r, r);
  shape_of(w, KEY_MIX_SCALE, "layers.*.key.mix.scale", kv, r, 0);
  w->asset = (kv_asset){.path = "less.safetensors",
                        .ask = w->ask,
                        .asked = TENSORS,
                        .layers = 1,
                        .layer = &w->layer,
                        .tensor = w->tensor};
}

static void draw(weights *w) {
  uint32_t x = 7;
  shapes(w, HEADS, KV, D, HIDDEN, RANK);
  for (int i = 0; i < TENSORS; i++)
    for (int j = 0; j < w->tensor[i].count; j++) {
      x = x * 1664525u + 1013904223u;
      w->data[i][j] = (float)(int32_t)x * 0x1p-31f;
    }
}

static rig_case some(uint32_t seed) {
  rig_case c = RIG_SHAPE(HEADS, KV, D, DV, T, 20);
  rig_data(&c, seed);
  return c;
}

/* --- by hand -------------------------------------------------------------- */

TEST(worked) {
  rig_needs_own();
  weights w;
  rig_case c = rig_eight(4);
  double gg[8], mass = 0, out[8] = {0};
  shapes(&w, 1, 1, 2, 1, 1);
  for (int i = 0; i < TENSORS; i++)
    for (int j = 0; j < w.tensor[i].count; j++) w.data[i][j] = 1;
  c.asset = &w.asset;
  rig *r = rig_open(&c, "less:budget=2:recent=2:policy=lambda");
  rig_holds(r, 0, (const int[]){2, 3, -1});
  const state *s = rig_lane(r, 0)->own;
  for (int t = 0; t < 8; t++)
    gg[t] =
        (double)kv_gelu(kv_gelu(c.k[2 * t] + c.k[2 * t + 1])); /* of key t */
  assert_int_equal(s->gone, 2);
  assert_true(fabs((double)s->z[0] - 2 * fabs(gg[0]) - 2 * fabs(gg[1])) < 1e-6);
  /* Values are unit vectors: H is what each token left. */
  assert_true(fabs((double)s->z[1] - 2 * fabs(gg[0])) < 1e-6);
  assert_true(fabs((double)s->z[2] - 2 * fabs(gg[1])) < 1e-6);
  rig_to(r, 5);
  double phi = fabs((double)kv_gelu(kv_gelu(c.q[2 * 4] + c.q[2 * 4 + 1])));
  for (int t = 0; t < 5; t++) {
    double dot = (double)c.q[8] * (double)c.k[2 * t] +
                 (double)c.q[9] * (double)c.k[2 * t + 1];
    out[t] = t < 2 ? phi * 2 * fabs(gg[t]) : exp(dot / sqrt(2));
    mass += out[t];
  }
  for (int t = 0; t < 8; t++) out[t] /= mass;
  rig_shares(r, 0, out);
  assert_true(fabs((double)rig_lse(r, 0) - log(mass)) < 1e-5);
  rig_close(r);
}

/* --- a plain account ----------------------------------------------------- */

static void perceptron(const weights *w, int in, int to, int head, int d,
                       const float *x, float *out) {
  const float *a = w->data[in] + head * HIDDEN * d;
  const float *b = w->data[to] + head * RANK * HIDDEN;
  float hidden[HIDDEN];
  for (int j = 0; j < HIDDEN; j++)
    hidden[j] = kv_gelu(kv_dot(a + j * d, x, d) + 0.0f);
  for (int j = 0; j < RANK; j++)
    out[j] = kv_gelu(kv_dot(b + j * HIDDEN, hidden, HIDDEN) + 0.0f);
}

static void psi_of(const weights *w, int g, const float *key, float *psi) {
  float kappa[RANK];
  perceptron(w, KEY_IN, KEY_OUT, g, D, key, kappa);
  for (int j = 0; j < RANK; j++)
    kappa[j] = fabsf(w->data[KEY_SCALE][g * RANK + j]) * kappa[j];
  for (int j = 0; j < RANK; j++) {
    float mixed =
        kv_dot(w->data[KEY_MIX] + (g * RANK + j) * RANK, kappa, RANK) + 0.0f;
    psi[j] =
        fabsf(kv_fma(w->data[KEY_MIX_SCALE][g * RANK + j], mixed, kappa[j]));
  }
}

typedef struct account {
  float z[RANK], h[RANK][DV];
  int gone;
} account;

/* Tokens of ids[0..n) that the lane no longer holds, in their order. */
static void book(const rig_case *c, const weights *w, const kv_lane *l, int n,
                 const uint32_t *ids, account *a) {
  for (int i = 0, at = 0; i < n; i++) {
    if (at < l->n && l->id[at] == ids[i]) {
      at++;
      continue;
    }
    float psi[RANK];
    const float *v = c->v + (l->kv_head * T + (int)ids[i]) * DV;
    psi_of(w, l->kv_head, c->k + (l->kv_head * T + (int)ids[i]) * D, psi);
    for (int j = 0; j < RANK; j++) {
      a->z[j] = a->z[j] + psi[j];
      for (int x = 0; x < DV; x++)
        a->h[j][x] = kv_fma(psi[j], v[x], a->h[j][x]);
    }
    a->gone++;
  }
}

static void same_state(const kv_lane *l, const account *a) {
  const state *s = l->own;
  assert_int_equal(s->gone, a->gone);
  assert_memory_equal(s->z, a->z, sizeof a->z);
  assert_memory_equal(s->z + RANK, a->h, sizeof a->h);
  for (int j = 0; j < RANK; j++) assert_true(s->z[j] >= 0);
}

/* The paper's formula over what the lane held and the newest token. */
static void same_output(const rig_case *c, const weights *w, const rig *r,
                        int head, int n, const uint32_t *ids,
                        const account *a) {
  int t = rig_step(r) - 1, g = head / (HEADS / KV);
  const float *q = c->q + (head * T + t) * D;
  double mass = 0, out[DV] = {0};
  float phi[RANK];
  perceptron(w, QUERY_IN, QUERY_OUT, head, D, q, phi);
  for (int j = 0; j < RANK; j++) mass += fabs((double)phi[j]) * (double)a->z[j];
  mass = fmax(mass, 1e-6);
  for (int j = 0; j < RANK; j++)
    for (int x = 0; x < DV; x++)
      out[x] += fmax(fabs((double)phi[j]), 1e-6) * (double)a->h[j][x];
  for (int i = 0; i < n; i++) {
    const float *v = c->v + (g * T + (int)ids[i]) * DV;
    double p =
        exp((double)kv_dot(q, c->k + (g * T + (int)ids[i]) * D, D) / sqrt(D));
    mass += p;
    for (int x = 0; x < DV; x++) out[x] += p * (double)v[x];
  }
  for (int x = 0; x < DV; x++)
    assert_true(fabs(out[x] / mass - (double)rig_out(r, head)[x]) < 2e-6);
  assert_true(fabs(log(mass) - (double)rig_lse(r, head)) < 2e-6);
}

static void plain_account(const char *spec, const char *like) {
  weights w;
  rig_case c = some(31);
  account a[KV] = {0};
  uint32_t ids[KV][T + 1], other[T];
  int n[KV] = {20, 20};
  draw(&w);
  c.asset = &w.asset;
  rig *r = rig_open(&c, spec), *s = rig_open(&c, like);
  for (uint32_t i = 0; i < 20; i++) ids[0][i] = ids[1][i] = i;
  for (int step = 20; step <= T; step++) {
    if (step > 20) {
      rig_to(r, step);
      rig_to(s, step);
      for (int h = 0; h < HEADS; h++)
        same_output(&c, &w, r, h, n[h / 2], ids[h / 2], &a[h / 2]);
    }
    for (int g = 0; g < KV; g++) {
      book(&c, &w, rig_lane(r, g), n[g], ids[g], &a[g]);
      same_state(rig_lane(r, g), &a[g]);
      n[g] = rig_ids(r, g, ids[g]);
      assert_int_equal(rig_ids(s, g, other), n[g]);
      assert_memory_equal(ids[g], other, (size_t)n[g] * sizeof *other);
      ids[g][n[g]++] = (uint32_t)step;
    }
  }
  rig_close(r);
  rig_close(s);
  rig_data_free(&c);
}

TEST(additive) {
  rig_needs_own();
  plain_account("less:budget=8", "h2o:budget=8");
  plain_account("less:budget=6:recent=1", "h2o:budget=6:recent=1");
  /* 17 go at once: more than fill a tile. */
  plain_account("less:budget=3:recent=1", "h2o:budget=3:recent=1");
  plain_account("less:budget=8:policy=lambda",
                "streamingllm:budget=8:positions=original");
}

/* --- laws ----------------------------------------------------------------- */

TEST(laws) {
  weights w;
  rig_case c = some(32);
  draw(&w);
  c.asset = &w.asset;
  rig_law(&c, "less:budget=8", rig_at_most, &(int){8});
  rig_law(&c, "less:budget=8:policy=lambda", rig_at_most, &(int){8});
  rig_law_dense(&c, "less:budget=40");
  rig_law_dense(&c, "less:budget=40:policy=lambda");
  kv_needs needs = rig_needs(&c, "less:budget=8");
  assert_int_equal(needs.meta[0].bytes, RANK * (DV + 1) * 4);
  rig_data_free(&c);
}

/* Weights of zeros: phi and psi are 0, and what is divided by is not. */
TEST(floor_holds) {
  weights w;
  rig_case c = some(33);
  shapes(&w, HEADS, KV, D, HIDDEN, RANK);
  c.asset = &w.asset;
  rig_law(&c, "less:budget=8", rig_at_most, &(int){8});
  rig_data_free(&c);
}

/* What is dropped no longer fits into the state: after the prompt the heads of
 * the second lane are given what is not finite. */
TEST(too_large) {
  weights w;
  rig_case c = some(35);
  draw(&w);
  c.asset = &w.asset;
  for (int j = 0; j < RANK; j++) w.data[KEY_MIX_SCALE][RANK + j] *= 3e38f;
  rig_fails(&c, "less:budget=8",
            "layer 0, query head 2, row 20: the method's own chunk is not "
            "finite, or its l not from 2^-64 to 2^64");
  w.data[QUERY_OUT][HIDDEN * RANK] = NAN; /* of head 1 */
  rig_fails(&c, "less:budget=8",
            "layer 0, query head 1, row 20: the method's own chunk is not "
            "finite, or its l not from 2^-64 to 2^64");
  rig_data_free(&c);
}

TEST(opening) {
  weights w;
  rig_case c = some(34);
  draw(&w);
  c.asset = &w.asset;
  rig_law_refused(&c, "less", KV_USAGE, "less", "budget");
  rig_law_refused(&c, "less:budget=4:recent=5", KV_REFUSED, "less", "recent");
  w.tensor[KEY_MIX].dim[2] = RANK + 1;
  rig_law_refused(&c, "less:budget=8", KV_REFUSED,
                  "dimension 2 of key.mix.weight of layer 0", "should be 3");
  rig_data_free(&c);
}

RIG_TESTS(less, RIG_CASE(worked), RIG_CASE(additive), RIG_CASE(laws),
          RIG_CASE(floor_holds), RIG_CASE(too_large), RIG_CASE(opening))
