/* SPDX-License-Identifier: Apache-2.0
 *
 * What the model of device_predict.h says of regular indices, in the shapes of
 * Hard-KV's paper.
 */
#include "tests/bench/gpu/device_predict.h"

int predict_regular_kept(int n, int layer, int head) {
  double x = n / 2.0;
  for (int i = 0; i < layer; i++) x *= 0.93389;
  for (int i = 0; i < head; i++) x *= 0.87215;
  return x < 1 ? 1 : (int)x;
}

double predict_break_even(double rewrite, double step, double rewritten) {
  double gain = step - 0.5 * rewritten;
  return gain > 0 ? 1.5 * rewrite / gain : -1;
}

/* Its kernel has the loops of logits and chunks, in one: their counts are taken
 * for its own. Masks are bytes that do not show. */
predict_indices predict_regular(const predict_device *d, int tokens) {
  enum { LAYERS = PREDICT_REGULAR_LAYERS, HEADS = PREDICT_REGULAR_HEADS };
  enum { GROUP = 4, LANES = 32 * HEADS };
  enum { ROWS = 2 * 128 * 2 }; /* bytes of K and V of a token */
  double all, kept = 0, moved = 0;
  predict_attend(d, GROUP, LANES, tokens, &all);
  for (int l = 0; l < LAYERS; l++) {
    double each, sum = 0;
    for (int h = 0; h < HEADS; h++) sum += predict_regular_kept(tokens, l, h);
    predict_attend(d, GROUP, LANES, (int)(sum / HEADS), &each);
    kept += each;
    moved += ROWS * sum * LANES / HEADS;
  }
  double rewrite = 2 * moved / d->copy + LAYERS * 2 * d->start;
  return (predict_indices){kept / (LAYERS * all),
                           predict_break_even(rewrite, LAYERS * all, kept)};
}
