/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of a training, and a look without one: sim/train/train.h. Each layer
 * is one thread's, and what is added up over layers is added in their order.
 */
#include "sim/train/train.h"

#include "ref/ground/float.h"
#include "sim/train/adam.h"
#include <math.h>
#include <omp.h>
#include <string.h>

enum { ORDERS = 1 << 20 }; /* streams of orders lie above those of layers */

/* The piece of a step: each pass has an order of its own. */
static const kv_train_piece *piece_of(kv_train *x, int64_t step) {
  int64_t pass = step / x->data.pieces;
  if (x->ordered != pass) {
    kv_draw draw = kv_draw_open(x->ask.seed, (uint64_t)(ORDERS + pass));
    kv_draw_order(&draw, x->data.pieces, x->order);
    x->ordered = pass;
  }
  return &x->data.piece[x->order[step % x->data.pieces]];
}

static double rate_of(const kv_train *x) {
  const kv_train_pace *p = &x->ask.of->pace;
  double rise = ceil(p->rise * (double)x->steps), at = (double)x->step;
  if (at < rise) return x->ask.rate * (at + 1) / rise;
  if (p->fall == KV_FALL_HALF)
    return x->ask.rate *
           pow(0.5, (double)(x->step / x->data.pieces / p->every));
  return x->ask.rate * ((double)x->steps - at) / ((double)x->steps - rise);
}

/* One layer of a piece; OpenMP's thread `thread`. */
static kv_rc learn(kv_train *x, const kv_train_piece *piece, int l, int thread,
                   bool judged, kv_train_loss *out, kv_err *e) {
  size_t at = (size_t)l * x->t.floats;
  int layer = x->data.layer[l];
  kv_train_task task = {.t = &x->t,
                        .piece = piece,
                        .at = kv_train_layer(piece->of->trace, layer),
                        .layer = layer,
                        .value = x->value + at,
                        .scratch = &x->scratch[thread]};
  *out = (kv_train_loss){0};
  if (task.at < 0) return KV_OK;
  if (!judged) {
    task.gradient = x->gradient + at;
    task.sum = x->sum + (size_t)l * x->t.sums;
    memset(task.gradient, 0, x->t.floats * sizeof(float));
  }
  return x->ask.of->learn(&task, out, e);
}

kv_rc kv_train_look(kv_train *x, const kv_train_piece *piece, bool judged,
                    kv_train_loss *out, kv_err *e) {
  int layers = x->data.layers;
  kv_rc worst = KV_OK;
#pragma omp parallel num_threads(x->ask.threads)
  {
    kv_float_ground();
#pragma omp for schedule(dynamic)
    for (int l = 0; l < layers; l++) {
      kv_err own = {0};
      kv_rc rc =
          learn(x, piece, l, omp_get_thread_num(), judged, &x->loss[l], &own);
#pragma omp critical
      if (rc) {
        worst = rc;
        if (e) *e = own;
      }
    }
  }
  for (int l = 0; l < layers && !worst; l++) {
    out->loss += x->loss[l].loss;
    out->weight += x->loss[l].weight;
    out->without += x->loss[l].without;
  }
  return worst;
}

static void move(kv_train *x) {
  int layers = x->data.layers;
  size_t n = x->t.floats;
  double all = 0;
#pragma omp parallel for num_threads(x->ask.threads)
  for (int l = 0; l < layers; l++)
    x->square[l] = kv_adam_square(n, x->gradient + (size_t)l * n);
  for (int l = 0; l < layers; l++) all += x->square[l];
  float clip = kv_adam_clip(all);
  double rate = rate_of(x);
#pragma omp parallel for num_threads(x->ask.threads)
  for (int l = 0; l < layers; l++) {
    size_t at = (size_t)l * n;
    kv_adam_step(x->step + 1, rate, clip, n, x->gradient + at, x->m + at,
                 x->v + at, x->value + at);
  }
}

/* Of the last hundred steps or so. */
static void remember(kv_train *x, const kv_train_loss *loss) {
  if (loss->weight <= 0) return;
  x->seen = 0.99 * x->seen + loss->loss / loss->weight;
  x->weight = 0.99 * x->weight + 1;
}

kv_rc kv_train_step(kv_train *x, kv_err *e) {
  kv_train_loss loss = {0};
  kv_rc rc = kv_train_look(x, piece_of(x, x->step), false, &loss, e);
  if (rc) return rc;
  if (x->ask.rate > 0) move(x);
  remember(x, &loss);
  x->step++;
  return KV_OK;
}
