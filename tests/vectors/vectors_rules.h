/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical arithmetic of kvreplay once more, with no header of this
 * project, for the programs vectors_*.c: logits, the order of scores,
 * exponential and logarithm, each the same to the bit. Inputs are finite;
 * nothing fails.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* (q . k) * scale + bias of rows of d elements, one chain of fma. */
static inline float logit(const float *q, const float *k, int d, float scale,
                          float bias) {
  float y = 0;
  for (int x = 0; x < d; x++) y = fmaf(q[x], k[x], y);
  return y * scale + bias + 0;
}

/* A whole number that orders as floats do, -0 before +0. */
static inline uint32_t key(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

/* How many of n scores come before the i-th: larger ones, and of equal ones
 * those of lower index. */
static inline int rank_of(int i, int n, const float *score) {
  int rank = 0;
  for (int j = 0; j < n; j++)
    rank += key(score[j]) > key(score[i]) ||
            (key(score[j]) == key(score[i]) && j < i);
  return rank;
}

/* y x^degree + c[0] x^(degree - 1) + .. + c[degree - 1], by Horner. */
static inline float polynomial(float y, int degree, const float *c, float x) {
  for (int i = 0; i < degree; i++) y = fmaf(y, x, c[i]);
  return y;
}

/* e^x for x <= 0; 0 below -87. */
static inline float exp_of(float x) {
  const float c[] = {
      0x1.12396ep-7f, 0x1.5558aap-5f, 0x1.555492p-3f, 0x1.fffffcp-2f, 1, 1};
  float n = fmaf(x, 0x1.715476p+0f, 0x1.8p23f) - 0x1.8p23f;
  float r = fmaf(n, -0x1.7f7d1cp-20f, fmaf(n, -0x1.62e4p-1f, x));
  return x < -87 ? 0 : ldexpf(polynomial(0x1.6a523ap-10f, 6, c, r), (int)n);
}

/* ln x for normal x > 0, as x = 2^e (1 + f) with f in [-1/3, 1/3). */
static inline float log_of(float x) {
  const float c[] = {
      0x1.1e699p-3f,  -0x1.f32c66p-4f, 0x1.1ed606p-3f, -0x1.559c8cp-3f,
      0x1.99d048p-3f, -0x1.fffefap-3f, 0x1.555506p-2f, -0.5f};
  int e;
  float f = frexpf(x, &e) - 1;
  if (f < 0x1.555556p-1f - 1) f = 2 * f + 1, e--;
  return fmaf(e, 0x1.62e43p-1f,
              fmaf(polynomial(-0x1.07d518p-3f, 8, c, f), f * f, f));
}
