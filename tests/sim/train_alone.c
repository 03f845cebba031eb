/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvreplay train deltakv:references=none`: what it calls its loss, against
 * plain loops in binary64 over the tokens that are coded, and what stands
 * beside it: the squares of these tokens.
 */
#include "tests/support/test.h"
#include "tests/support/traces/training.h"

#include <math.h>

/* What is left of x[width] once f_d(f_c(x)) of a layer's arrays is taken away,
 * squared: in, out, back as the trainer declares them. */
static double left_of(const kv_training *t, const float *value, int width,
                      const float *x) {
  const float *in = value + t->array[0].offset;
  const float *out = value + t->array[1].offset;
  const float *back = value + t->array[2].offset;
  int hidden = (int)t->array[1].dim[1], latent = (int)t->array[1].dim[0];
  double z[64] = {0}, sum = 0;
  for (int j = 0; j < hidden; j++) {
    double gate = 0, up = 0;
    for (int c = 0; c < width; c++) {
      gate += (double)in[j * width + c] * (double)x[c];
      up += (double)in[(hidden + j) * width + c] * (double)x[c];
    }
    for (int i = 0; i < latent; i++)
      z[i] += (double)out[i * hidden + j] * up * gate / (1 + exp(-gate));
  }
  for (int c = 0; c < width; c++) {
    double y = 0;
    for (int i = 0; i < latent; i++) y += (double)back[c * latent + i] * z[i];
    sum += pow(y - (double)x[c], 2);
  }
  return sum;
}

void test_alone(void **state); /* called by check_train.c */
void test_alone(void **state) {
  (void)state;
  kv_train *x = training_begin("deltakv:references=none:sinks=3:hidden=7");
  const kv_shape *s = &x->data.trace[0].trace->shape;
  int width = kv_train_width(s);
  double left = 0, square = 0;
  float token[64];
  kv_draw draw = kv_draw_open(3, 0);
  kv_train_loss got;
  assert_int_equal(x->t.array[1].dim[0], width * 3 / 8);
  kv_draw_normal(&draw, 0.4, (size_t)x->data.layers * x->t.floats, x->value);
  for (int l = 0; l < x->data.layers; l++)
    for (int i = 3; i < s->n_tokens; i++) {
      kv_train_vectors(&x->data.trace[0], x->t.kernels, l, i, 1, NULL, token);
      left += left_of(&x->t, x->value + (size_t)l * x->t.floats, width, token);
      for (int c = 0; c < width; c++) square += pow((double)token[c], 2);
    }
  assert_int_equal(kv_train_judge(x, 0, &got, NULL), KV_OK);
  assert_true(got.weight ==
              (double)(x->data.layers * (s->n_tokens - 3) * width));
  if (!(fabs(got.loss - left) <= 1e-4 * left))
    fail_msg("%g, by hand %g", got.loss, left);
  if (!(fabs(got.without - square) <= 1e-4 * square))
    fail_msg("squares %g, by hand %g", got.without, square);
  training_end(x);
}
