/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations of training: sim/train/net_bend.h. The exponential of SiLU is the
 * row kernel's, of numbers that are not above 0: 1 / (1 + e^-a) is t / (1 + t)
 * for a below 0, t = e^-|a|.
 */
#include "sim/train/net_bend.h"

#include <math.h>

enum { RUN = 128 }; /* elements at once, on the stack */

void kv_gelu_forth(size_t n, const float *x, float *y) {
  const float root = 0.70710678f;
  for (size_t i = 0; i < n; i++)
    y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * root));
}

void kv_gelu_back(size_t n, const float *x, const float *d_y, float *d_x) {
  const float root = 0.70710678f, density = 0.39894228f;
  for (size_t i = 0; i < n; i++) {
    float below = 0.5f * (1.0f + erff(x[i] * root));
    float slope = below + x[i] * density * expf(-0.5f * x[i] * x[i]);
    d_x[i] = d_y[i] * slope;
  }
}

/* 1 / (1 + e^-a). */
static void sigmoid(const kv_kernels *kernels, int n, const float *a,
                    float *out) {
  float t[RUN];
  for (int i = 0; i < n; i++) t[i] = -fabsf(a[i]);
  kernels->exp_sum(t, 0.0f, n, t);
  for (int i = 0; i < n; i++) out[i] = (a[i] < 0 ? t[i] : 1.0f) / (1.0f + t[i]);
}

static void forth(const kv_kernels *kernels, int n, const float *a,
                  const float *b, float *y) {
  float s[RUN];
  sigmoid(kernels, n, a, s);
  for (int i = 0; i < n; i++) y[i] = a[i] * s[i] * b[i];
}

static void back(const kv_kernels *kernels, int n, const float *a,
                 const float *b, const float *d_y, float *d_a, float *d_b) {
  float s[RUN];
  sigmoid(kernels, n, a, s);
  for (int i = 0; i < n; i++) {
    d_a[i] = d_y[i] * b[i] * s[i] * (1.0f + a[i] * (1.0f - s[i]));
    d_b[i] = d_y[i] * a[i] * s[i];
  }
}

static int length(int hidden, int at) {
  return hidden - at < RUN ? hidden - at : RUN;
}

void kv_swiglu_forth(const kv_kernels *kernels, int n, int hidden,
                     const float *x, float *y) {
  for (int i = 0; i < n; i++, x += 2 * hidden, y += hidden)
    for (int j = 0; j < hidden; j += RUN)
      forth(kernels, length(hidden, j), x + j, x + hidden + j, y + j);
}

void kv_swiglu_back(const kv_kernels *kernels, int n, int hidden,
                    const float *x, const float *d_y, float *d_x) {
  for (int i = 0; i < n; i++, x += 2 * hidden, d_x += 2 * hidden, d_y += hidden)
    for (int j = 0; j < hidden; j += RUN)
      back(kernels, length(hidden, j), x + j, x + hidden + j, d_y + j, d_x + j,
           d_x + hidden + j);
}
