/* SPDX-License-Identifier: Apache-2.0
 *
 * DeltaKV's references while training: sim/train/nearest.h. Ranks by
 * |b|^2 - 2 a.b, whose products are one matrix product.
 */
#include "sim/train/nearest.h"

#include "sim/train/product.h"
#include <assert.h>
#include <string.h>

int kv_references(int sinks, int stride, int end, int *token) {
  int n = 0, first = sinks < end ? sinks : end;
  for (int t = 0; t < first; t++, n++)
    if (token) token[n] = t;
  for (int t = (first + stride - 1) / stride * stride; t < end; t += stride)
    if (token)
      token[n++] = t;
    else
      n++;
  return n;
}

size_t kv_nearest_room(int n, int references) {
  return (size_t)references * (size_t)(n + 1);
}

static float square(int width, const float *x) {
  float sum = 0;
  for (int j = 0; j < width; j++) sum += x[j] * x[j];
  return sum;
}

/* The k least of `visible` distances into which, ascending; returns how many.
 */
static int choose(int visible, int k, const float *dot, const float *norm,
                  int *which) {
  float far[KV_NEAREST_MOST];
  int n = 0;
  for (int j = 0; j < visible; j++) {
    float d = norm[j] - 2 * dot[j];
    int at = n < k ? n++ : d < far[n - 1] ? n - 1 : -1;
    if (at < 0) continue;
    for (; at > 0 && d < far[at - 1]; at--) {
      far[at] = far[at - 1];
      which[at] = which[at - 1];
    }
    far[at] = d;
    which[at] = j;
  }
  return n;
}

static void mean_of(int n, const int *which, int width, const float *reference,
                    float *mean) {
  float share = 1.0f / (float)n;
  memset(mean, 0, (size_t)width * sizeof *mean);
  for (int i = 0; i < n; i++) {
    const float *b = reference + (size_t)which[i] * (size_t)width;
    for (int j = 0; j < width; j++) mean[j] += b[j] * share;
  }
}

void kv_nearest_means(int n, int first, int width, int k, const float *x,
                      int references, const int *token, const float *reference,
                      kv_scratch *s, float *mean) {
  float *norm = kv_scratch_take(s, (size_t)references);
  float *dot = kv_scratch_take(s, (size_t)references * (size_t)n);
  int which[KV_NEAREST_MOST], visible = 0;
  for (int j = 0; j < references; j++)
    norm[j] = square(width, reference + (size_t)j * (size_t)width);
  kv_product(n, references, width, kv_rows_of(x, width),
             kv_turned(reference, width), false, dot);
  for (int i = 0; i < n; i++) {
    while (visible < references && token[visible] < first + i) visible++;
    int near =
        choose(visible, k, dot + (size_t)i * (size_t)references, norm, which);
    assert(near > 0 && "a token that is learned has a reference before it");
    mean_of(near, which, width, reference, mean + (size_t)i * (size_t)width);
  }
}
