/* SPDX-License-Identifier: Apache-2.0
 *
 * Contract: tests/methods/delta_account.h.
 */
#include "tests/methods/delta_account.h"

#include "traces/trace/check.h"
#include <math.h>
#include <string.h>

enum {
  T = DELTA_T,
  D = DELTA_D,
  DV = DELTA_DV,
  H = DELTA_H,
  W = DELTA_W,
  UP = 24,   /* where GELU(y) = y, for |y - UP| < 16 */
  OPEN = 128 /* where SiLU(y) = y: 1 + e^-y is 1 in binary32 from 17 on */
};

static const float freq[D / 2] = {1.0f, 0.1f};

/* --- weights ------------------------------------------------------------- */

static float draw_one(void) {
  static uint32_t seed = 7;
  seed = seed * 1664525u + 1013904223u;
  return (float)(int32_t)seed * 0x1p-33f;
}

static void name(delta_weights *w, int which, int rows, int columns) {
  w->tensor[which] = (kv_tensor){w->x[which], rows * columns, {rows, columns}};
}

static void put(delta_weights *w, int which, int rows, int columns) {
  for (int i = 0; i < rows * columns; i++) w->x[which][i] = draw_one();
  name(w, which, rows, columns);
}

static void empty(delta_weights *w, bool gated, int hidden, int latent) {
  memset(w, 0, sizeof *w);
  w->gated = gated;
  w->hidden = hidden;
  w->latent = latent;
  w->text = (kv_asset_text){"compressor", gated ? "swiglu" : "gelu"};
  w->asset = (kv_asset){.path = "w.safetensors",
                        .ask = kv_latents_kind.tensors,
                        .asked = KV_LATENT_TENSORS,
                        .layers = 1,
                        .layer = &w->layer,
                        .tensor = w->tensor,
                        .texts = 1,
                        .text = &w->text};
}

void delta_draw(delta_weights *w, bool gated, int hidden, int latent) {
  empty(w, gated, hidden, latent);
  put(w, KV_LATENT_IN, gated ? 2 * hidden : hidden, W);
  put(w, KV_LATENT_OUT, latent, hidden);
  put(w, KV_LATENT_BACK, W, gated ? latent : hidden);
  if (gated) return;
  put(w, KV_LATENT_IN_BIAS, hidden, 1);
  put(w, KV_LATENT_OUT_BIAS, latent, 1);
  put(w, KV_LATENT_BACK_IN, hidden, latent);
  put(w, KV_LATENT_BACK_IN_BIAS, hidden, 1);
  put(w, KV_LATENT_BACK_BIAS, W, 1);
}

/* Two reflections, one after the other. */
static void draw_turn(double q[W][W]) {
  double a[2][W], length[2] = {0};
  for (int i = 0; i < 2 * W; i++) {
    double *x = &a[i / W][i % W];
    *x = (double)draw_one();
    length[i / W] += *x * *x;
  }
  for (int i = 0; i < W; i++)
    for (int j = 0; j < W; j++) {
      q[i][j] = 0;
      for (int k = 0; k < W; k++)
        q[i][j] += ((i == k) - 2 * a[0][i] * a[0][k] / length[0]) *
                   ((k == j) - 2 * a[1][k] * a[1][j] / length[1]);
    }
}

/* q or its transpose, and a bias that takes back what UP becomes. */
static void put_turn(delta_weights *w, int which, double q[W][W], bool back,
                     bool down) {
  for (int i = 0; i < W; i++) {
    double sum = 0;
    for (int j = 0; j < W; j++) {
      double x = back ? q[j][i] : q[i][j];
      w->x[which][i * W + j] = (float)x;
      sum += x;
    }
    w->x[which + 1][i] = down ? (float)(-UP * sum) : UP;
  }
  name(w, which, W, W);
  name(w, which + 1, W, 1);
}

void delta_orthonormal(delta_weights *w) {
  double q[W][W], r[W][W];
  empty(w, false, W, W);
  draw_turn(q);
  draw_turn(r);
  put_turn(w, KV_LATENT_IN, q, false, false);
  put_turn(w, KV_LATENT_OUT, r, false, true);
  put_turn(w, KV_LATENT_BACK_IN, r, true, false);
  put_turn(w, KV_LATENT_BACK, q, true, true);
}

void delta_saturated(delta_weights *w) {
  double q[W][W], r[W][W];
  empty(w, true, W, W);
  draw_turn(q);
  draw_turn(r);
  for (int i = 0; i < W; i++)
    for (int j = 0; j < W; j++) {
      double back = 0;
      for (int k = 0; k < W; k++) back += q[k][i] * r[j][k] / OPEN;
      w->x[KV_LATENT_IN][i * W + j] = j == W - 1 ? OPEN : 0;
      w->x[KV_LATENT_IN][(W + i) * W + j] = (float)q[i][j];
      w->x[KV_LATENT_OUT][i * W + j] = (float)r[i][j];
      w->x[KV_LATENT_BACK][i * W + j] = (float)back;
    }
  name(w, KV_LATENT_IN, 2 * W, W);
  name(w, KV_LATENT_OUT, W, W);
  name(w, KV_LATENT_BACK, W, W);
}

rig_case delta_case(const delta_weights *w) {
  rig_case c = RIG_SHAPE(H, H, D, DV, T, 40, .n_layers = 8, .layer = 0,
                         .inv_freq = freq);
  rig_data(&c, 5);
  c.asset = w ? &w->asset : NULL;
  return c;
}

/* --- the definition ------------------------------------------------------ */

void delta_turn(double p, const double *in, double *out) {
  for (int i = 0; i < D / 2; i++) {
    double a = p * (double)freq[i], s = sin(a), k = cos(a);
    out[i] = in[i] * k - in[i + D / 2] * s;
    out[i + D / 2] = in[i + D / 2] * k + in[i] * s;
  }
}

void delta_vector(const rig_case *c, int t, double *out) {
  for (int g = 0; g < H; g++) {
    double y[D];
    for (int x = 0; x < D; x++) y[x] = (double)c->k[(g * T + t) * D + x];
    delta_turn(-t, y, out + g * D);
    for (int x = 0; x < DV; x++)
      out[H * D + g * DV + x] = (double)c->v[(g * T + t) * DV + x];
  }
}

double delta_far(const double *a, const double *b) {
  double sum = 0;
  for (int x = 0; x < W; x++) sum += (a[x] - b[x]) * (a[x] - b[x]);
  return sum;
}

/* y = w x + b. */
static void linear(const delta_weights *w, int which, int n, int d,
                   const double *x, double *y) {
  const float *bias = w->gated ? NULL : w->x[which + 1];
  for (int i = 0; i < n; i++) {
    y[i] = bias ? (double)bias[i] : 0;
    for (int j = 0; j < d; j++) y[i] += (double)w->x[which][i * d + j] * x[j];
  }
}

static double gelu_of(double x) { return x / 2 * (1 + erf(x / sqrt(2))); }

void delta_code(const delta_weights *w, const double *x, double *z) {
  double h[2 * DELTA_MOST];
  int n = w->hidden;
  linear(w, KV_LATENT_IN, w->gated ? 2 * n : n, W, x, h);
  for (int i = 0; i < n; i++)
    h[i] = w->gated ? h[i] / (1 + exp(-h[i])) * h[i + n] : gelu_of(h[i]);
  linear(w, KV_LATENT_OUT, w->latent, n, h, z);
}

void delta_decode(const delta_weights *w, const double *z, double *x) {
  double h[DELTA_MOST];
  int n = w->hidden;
  if (w->gated) {
    linear(w, KV_LATENT_BACK, W, w->latent, z, x);
    return;
  }
  linear(w, KV_LATENT_BACK_IN, n, w->latent, z, h);
  for (int i = 0; i < n; i++) h[i] = gelu_of(h[i]);
  linear(w, KV_LATENT_BACK, W, n, h, x);
}

/* --- looking ------------------------------------------------------------- */

void delta_lanes(const rig *r, kv_lane *lane[H]) {
  for (int g = 0; g < H; g++) lane[g] = (kv_lane *)(uintptr_t)rig_lane(r, g);
}

double delta_off(const rig *r, int i, const double *want) {
  double most = 0;
  for (int g = 0; g < H; g++) {
    float k[D], v[DV];
    double y[D];
    delta_turn(i, want + g * D, y);
    kv_lane_key(rig_lane(r, g), i, k);
    kv_lane_value(rig_lane(r, g), i, v);
    for (int x = 0; x < D; x++)
      most = kv_check_worse(most, fabs((double)k[x] - y[x]));
    for (int x = 0; x < DV; x++)
      most =
          kv_check_worse(most, fabs((double)v[x] - want[H * D + g * DV + x]));
  }
  return most;
}
