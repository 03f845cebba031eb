/* SPDX-License-Identifier: Apache-2.0
 *
 * What `kvreplay train` is made of: gradients against differences of the loss,
 * references, products, steps of AdamW, tables of heads by hand and directions.
 */
#include "sim/inspect/spectrum.h"
#include "sim/train/adam.h"
#include "sim/train/nearest.h"
#include "sim/train/product.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "tests/support/traces/training.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- gradients
 * ---------------------------------------------------------------- */

/* Of the loss of layer `l` of a piece, a mean. */
static double loss_of(kv_train *x, const kv_train_piece *piece, int l) {
  kv_train_loss loss = {0};
  assert_int_equal(kv_train_look(x, piece, true, &loss, NULL), KV_OK);
  return x->loss[l].loss / x->loss[l].weight;
}

/* Weights of a size at which no activation is near a straight line. */
static void spread(kv_train *x) {
  kv_draw draw = kv_draw_open(3, 0);
  kv_draw_normal(&draw, 0.4, (size_t)x->data.layers * x->t.floats, x->value);
}

static void gradient_is_the_slope(const char *spec) {
  kv_train *x = training_begin(spec);
  kv_train_loss loss = {0};
  const kv_train_piece *piece = &x->data.piece[1];
  spread(x);
  assert_int_equal(kv_train_look(x, piece, false, &loss, NULL), KV_OK);
  for (int i = 0; i < x->t.arrays; i++)
    for (int at = 0; at < 12; at++) {
      const kv_train_array *a = &x->t.array[i];
      size_t w = x->t.floats + a->offset + (size_t)at * a->count / 12;
      float old = x->value[w], step = 0x1p-7f;
      x->value[w] = old + step;
      double up = loss_of(x, piece, 1);
      x->value[w] = old - step;
      double down = loss_of(x, piece, 1);
      x->value[w] = old;
      double slope = (up - down) / (2 * (double)step);
      double got = (double)x->gradient[w];
      if (!(fabs(got - slope) <= 1e-4 + 0.01 * fabs(slope)))
        fail_msg("%s, %s: %g, differences say %g", spec, a->name, got, slope);
    }
  training_end(x);
}

TEST(gradients_are_slopes) {
  gradient_is_the_slope("deltakv:latent=5:hidden=11");
  gradient_is_the_slope("deltakv:compressor=gelu:latent=5:hidden=11:back=7");
  gradient_is_the_slope("deltakv:references=none:latent=5:hidden=11");
  gradient_is_the_slope(
      "deltakv:references=none:compressor=gelu:latent=5:hidden=11");
  gradient_is_the_slope("less:rank=3:hidden=5:budget=4:context=12");
}

/* --- parts
 * -------------------------------------------------------------------- */

TEST(references_are_the_nearest_before) {
  static const float x[4][2] = {{0, 0}, {3, 4}, {0.5f, 0}, {2, 2}};
  static const float raw[4][2] = {{0, 1}, {1, 0}, {3, 3}, {0, 0}};
  static const int at[4] = {0, 1, 10, 20};
  int token[8];
  float mean[4][2];
  kv_scratch s = {0};
  assert_int_equal(kv_references(2, 10, 21, token), 4);
  for (int i = 0; i < 4; i++) assert_int_equal(token[i], at[i]);
  assert_int_equal(kv_references(2, 10, 20, NULL), 3);
  assert_int_equal(kv_references(12, 10, 21, NULL), 13);
  assert_int_equal(kv_scratch_reserve(&s, kv_nearest_room(4, 4), NULL), KV_OK);
  kv_nearest_means(4, 9, 2, 2, x[0], 4, at, raw[0], &s, mean[0]);
  /* 9 and 10 see 0 and 1 alone: not themselves. 11 has a tie of 0 and 10
   * behind 1. 12 sees 10 first. */
  static const float want[4][2] = {
      {0.5f, 0.5f}, {0.5f, 0.5f}, {0.5f, 0.5f}, {1.5f, 2}};
  assert_memory_equal(mean, want, sizeof want);
  kv_scratch_free(&s);
}

TEST(products_are_products) {
  float a[7 * 300], b[300 * 5], c[7 * 5];
  kv_draw draw = kv_draw_open(1, 1);
  kv_draw_normal(&draw, 1, 7 * 300, a);
  kv_draw_normal(&draw, 1, 300 * 5, b);
  for (int way = 0; way < 4; way++) {
    kv_matrix x = way & 1 ? kv_turned(a, 7) : kv_rows_of(a, 300);
    kv_matrix y = way & 2 ? kv_turned(b, 300) : kv_rows_of(b, 5);
    for (int i = 0; i < 35; i++) c[i] = 1;
    kv_product(7, 5, 300, x, y, true, c);
    for (int i = 0; i < 7; i++)
      for (int j = 0; j < 5; j++) {
        double sum = 1;
        for (int k = 0; k < 300; k++)
          sum += (double)x.data[i * x.row + k * x.column] *
                 (double)y.data[k * y.row + j * y.column];
        assert_true(fabs((double)c[i * 5 + j] - sum) < 1e-4);
      }
  }
}

TEST(steps_are_those_of_adamw) {
  float value[2] = {1, -1}, m[2] = {0}, v[2] = {0};
  const float g[2] = {0.5f, -2};
  /* The first step is the rate, whatever the gradient. */
  kv_adam_step(1, 0.1, 1, 2, g, m, v, value);
  assert_true(fabsf(value[0] - 0.9f) < 1e-6f);
  assert_true(fabsf(value[1] + 0.9f) < 1e-6f);
  /* Then a gradient of 0: m = .045 / .19, v = .00024975 / .001999. */
  const float none[2] = {0, 0};
  kv_adam_step(2, 0.1, 1, 2, none, m, v, value);
  double by = 0.1 * (0.045 / 0.19) / sqrt(0.00024975 / 0.001999);
  assert_true(fabs(0.9 - by - (double)value[0]) < 1e-6);
  const float long_one[2] = {3, 4};
  double square = kv_adam_square(2, long_one);
  assert_true(square == 25);
  assert_true(fabsf(kv_adam_clip(square) - 0.2f) < 1e-6f);
  assert_true(kv_adam_clip(0.5) == 1.0f);
}

TEST(draws_are_spread_as_asked) {
  enum { N = 20000 };
  static float x[N];
  int order[10], seen = 0;
  double sum = 0, square = 0;
  kv_draw d = kv_draw_open(5, 2);
  kv_draw_normal(&d, 0.02, N, x);
  for (int i = 0; i < N; i++) {
    sum += (double)x[i];
    square += (double)x[i] * (double)x[i];
  }
  assert_true(fabs(sum / N) < 0.0006);
  assert_true(fabs(sqrt(square / N) / 0.02 - 1) < 0.02);
  kv_draw_order(&d, 10, order);
  for (int i = 0; i < 10; i++) seen |= 1 << order[i];
  assert_int_equal(seen, 1023);
}

TEST(training_lowers_the_loss) {
  kv_train *x = training_begin("deltakv");
  kv_train_loss before, after;
  bool stopped;
  x->ask.rate = 0.005;
  x->steps = 200;
  x->ask.keep = 1000;
  assert_int_equal(kv_train_judge(x, 0, &before, NULL), KV_OK);
  assert_int_equal(kv_train_run(x, NULL, &stopped, NULL), KV_OK);
  assert_int_equal(kv_train_judge(x, 0, &after, NULL), KV_OK);
  assert_true(before.without == after.without && before.loss > 0);
  if (after.loss > 0.8 * after.without)
    fail_msg("%g of %g", after.loss, after.without);
  training_end(x);
}

/* --- tables of heads
 * ---------------------------------------------------------- */

/* What row t of query head h gives each token, in binary64 from the trace. */
static void probabilities(const kv_trace *t, int layer, int h, int at,
                          double *p) {
  const kv_shape *s = &t->shape;
  const kv_layer_data *data = &t->layer[layer].data;
  const float *q = data->q, *k = data->k;
  int g = h / kv_group(s);
  double sum = 0;
  q += (h * s->n_tokens + at) * s->d;
  for (int j = 0; j <= at; j++) {
    const float *key = k + (g * s->n_tokens + j) * s->d;
    double dot = 0;
    for (int x = 0; x < s->d; x++) dot += (double)q[x] * (double)key[x];
    p[j] = exp(dot * (double)s->scale);
    sum += p[j];
  }
  for (int j = 0; j <= at; j++) p[j] /= sum;
}

/* Tokens `from` .. `to` - 1 alone, as if nothing else were seen: out[d_v]. */
static void output(const kv_trace *t, int layer, int g, const double *p,
                   bool stream, int at, double *out) {
  const kv_shape *s = &t->shape;
  const float *v = t->layer[layer].data.v;
  double mass = 0;
  memset(out, 0, (size_t)s->d_v * sizeof *out);
  for (int j = 0; j <= at; j++) {
    if (stream && j >= 3 && j < at - 10) continue;
    mass += p[j];
    for (int x = 0; x < s->d_v; x++)
      out[x] += p[j] * (double)v[(g * s->n_tokens + j) * s->d_v + x];
  }
  for (int x = 0; x < s->d_v; x++) out[x] /= mass;
}

/* Sums of both methods over the answers of a trace, of query head h. */
typedef struct by_hand {
  double score, difference, square;
} by_hand;

static void by_row(const kv_trace *t, int layer, int h, const kv_answer *a,
                   int at, by_hand *sum) {
  double p[TRAINING_LONG], full[8], stream[8];
  int g = h / kv_group(&t->shape), n = a->source_end - a->source_start;
  probabilities(t, layer, h, at, p);
  for (int i = a->source_start; i < a->source_end; i++) {
    int above = 0;
    for (int j = 0; j <= at; j++) above += p[j] > p[i];
    if (above < n) sum->score += p[i] / n;
  }
  output(t, layer, g, p, false, at, full);
  output(t, layer, g, p, true, at, stream);
  for (int x = 0; x < t->shape.d_v; x++) {
    sum->difference += pow(full[x] - stream[x], 2);
    sum->square += pow(full[x], 2);
  }
}

static by_hand of_head(const kv_train *x, int layer, int h, int *answers) {
  by_hand sum = {0};
  *answers = 0;
  for (int i = 0; i < x->data.learned; i++) {
    const kv_trace *t = x->data.trace[i].trace;
    for (int k = 0; k < t->n_answers; k++, ++*answers)
      for (int at = t->answer[k].start - 1; at < t->answer[k].end - 1; at++)
        by_row(t, layer, h, &t->answer[k], at, &sum);
  }
  return sum;
}

static void near(float got, double want) {
  if (!(fabs((double)got - want) <= 1e-5 + 1e-4 * want))
    fail_msg("%g, by hand %g", (double)got, want);
}

/* Two query heads read each of two KV heads. */
TEST(tables_are_those_by_hand) {
  bool stopped;
  int n;
  kv_train *x = training_begin("headkv");
  assert_int_equal(kv_train_run(x, NULL, &stopped, NULL), KV_OK);
  for (int i = 0; i < 8; i++) {
    by_hand want = of_head(x, i / 4, i % 4, &n);
    assert_true(n > 1);
    near(x->value[i], want.score / n);
  }
  training_end(x);
  x = training_begin("duoattention:sink=3:recent=10:penalty=0.01");
  assert_int_equal(kv_train_run(x, NULL, &stopped, NULL), KV_OK);
  for (int i = 0; i < 4; i++) {
    double square = 0, difference = 0;
    for (int h = 0; h < 4; h++) {
      by_hand one = of_head(x, i / 2, h, &n);
      square += one.square;
      if (h / 2 == i % 2) difference += one.difference;
    }
    near(x->value[i], fmax(0, 1 - 0.01 / (2 * difference * 2 / square)));
  }
  training_end(x);
}

/* --- directions
 * --------------------------------------------------------------- */

/* Sum over the tokens learned from of (b_i . x)(b_j . x), x the numbers first
 * .. first + width - 1 of a layer's vector. */
static double product_of(const kv_train *x, int layer, int first, int width,
                         const float *bi, const float *bj) {
  float vector[64];
  double sum = 0;
  for (int i = 0; i < x->data.learned; i++)
    for (int t = 0; t < x->data.trace[i].trace->shape.n_tokens; t++) {
      double zi = 0, zj = 0;
      kv_train_vectors(&x->data.trace[i], x->t.kernels, layer, t, 1, NULL,
                       vector);
      for (int c = 0; c < width; c++) {
        zi += (double)bi[c] * (double)vector[first + c];
        zj += (double)bj[c] * (double)vector[first + c];
      }
      sum += zi * zj;
    }
  return sum;
}

/* Rows of K or V of a layer, a group of both KV heads: at right angles, as are
 * tokens along them, unless they were turned; energies are the squares. */
static void are_directions(const kv_train *x, int layer, int side, int turn) {
  const kv_shape *s = &x->data.shape;
  const float *value = x->value + (size_t)layer * x->t.floats;
  const float *b = value + x->t.array[side].offset;
  const float *energy = value + x->t.array[2 + side].offset;
  int width = 2 * (side ? s->d_v : s->d), first = side ? 2 * s->d : 0;
  double total = 0, square[64] = {0};
  for (int i = 0; i < width; i++)
    total += square[i] =
        product_of(x, layer, first, width, b + i * width, b + i * width);
  for (int i = 0; i < width; i++) {
    double of = 0;
    for (int k = i / turn * turn; k < (i / turn + 1) * turn; k++)
      of += square[k] / turn;
    assert_true(fabs((double)energy[i] - of / total) < 1e-6);
    assert_true(i == 0 || energy[i] <= energy[i - 1]);
    for (int j = 0; j <= i; j++) {
      double dot = 0;
      for (int c = 0; c < width; c++)
        dot += (double)b[i * width + c] * (double)b[j * width + c];
      assert_true(fabs(dot - (i == j)) < 1e-6);
      if (i / turn == j / turn) continue;
      double both =
          product_of(x, layer, first, width, b + i * width, b + j * width);
      assert_true(fabs(both) < 1e-5 * total);
    }
  }
}

TEST(directions_are_singular_vectors) {
  if (!kv_spectrum_can()) skip();
  for (int turn = 1; turn <= 4; turn += 3) {
    bool stopped;
    kv_train_loss loss;
    kv_train *x = training_begin(turn == 1 ? "palu" : "palu:turn=4:share=1");
    assert_int_equal(kv_train_run(x, NULL, &stopped, NULL), KV_OK);
    for (int i = 0; i < 4; i++) are_directions(x, i / 2, i % 2, turn);
    assert_int_equal(kv_train_judge(x, 0, &loss, NULL), KV_OK);
    assert_true(turn == 1 ? loss.loss > 1e-3 * loss.without
                          : loss.loss < 1e-10 * loss.without);
    training_end(x);
  }
}

void test_alone(void **state); /* train_alone.c */

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_slopes),
      cmocka_unit_test(references_are_the_nearest_before),
      cmocka_unit_test(products_are_products),
      cmocka_unit_test(steps_are_those_of_adamw),
      cmocka_unit_test(draws_are_spread_as_asked),
      cmocka_unit_test(training_lowers_the_loss),
      cmocka_unit_test(test_alone),
      cmocka_unit_test(tables_are_those_by_hand),
      cmocka_unit_test(directions_are_singular_vectors)};
  return cmocka_run_group_tests_name("train", tests, training_make,
                                     scratch_remove);
}
