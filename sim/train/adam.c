/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW: sim/train/adam.h. Bias correction as in torch: the step is
 * rate / (1 - .9^t), the divisor sqrt(v) / sqrt(1 - .999^t) + eps.
 */
#include "sim/train/adam.h"

#include <math.h>

static const double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, longest = 1.0;

double kv_adam_square(size_t n, const float *gradient) {
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += (double)gradient[i] * (double)gradient[i];
  return sum;
}

float kv_adam_clip(double square) {
  double by = longest / (sqrt(square) + 1e-6);
  return by < 1 ? (float)by : 1.0f;
}

void kv_adam_step(int64_t step, double rate, float clip, size_t n,
                  const float *gradient, float *m, float *v, float *value) {
  float by = (float)(rate / (1 - pow(beta1, (double)step)));
  float root = (float)(1 / sqrt(1 - pow(beta2, (double)step)));
  float b1 = (float)beta1, b2 = (float)beta2, small = (float)eps;
  float c1 = (float)(1 - beta1), c2 = (float)(1 - beta2);
  for (size_t i = 0; i < n; i++) {
    float g = gradient[i] * clip;
    m[i] = b1 * m[i] + c1 * g;
    v[i] = b2 * v[i] + c2 * (g * g);
    value[i] -= by * m[i] / (sqrtf(v[i]) * root + small);
  }
}
