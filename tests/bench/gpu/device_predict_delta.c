/* SPDX-License-Identifier: Apache-2.0
 *
 * What the model of device_predict.h says of residual latents, whose rows are
 * made where they are attended: products of tiles, and what fills the tiles.
 */
#include "tests/bench/gpu/device_predict.h"

enum { CHUNK = 128, WARP = 32, SIDE = 64, PIPES = 4 };

double predict_fma_peak(const predict_device *d) {
  return 2.0 * PIPES * WARP * d->sms * d->clock;
}

/* A tile of SIDE tokens by SIDE columns takes two numbers from memory for every
 * SIDE products. Means, logits and values are not counted: a dozen operations
 * an element, whose product has PREDICT_DELTA_LATENT. */
predict_delta predict_rebuilt(const predict_device *d, int tokens) {
  const predict_turn *tile = predict_turn_of("rebuilt_tile");
  const predict_turn *load = predict_turn_of("rebuilt_load");
  double chunks = (tokens + CHUNK - 1) / CHUNK, each = PREDICT_DELTA_LATENT;
  double products = chunks * CHUNK * PREDICT_DELTA_WIDTH * each;
  predict_delta p = {0, 2 * products / predict_fma_peak(d), ""};
  predict_turn t = {0};
  predict_add(&t, 1, tile);
  predict_add(&t, 2 * tile->elements / SIDE / load->elements, load);
  p.seconds = predict_issue(d, &t, products / WARP / tile->elements, &p.bound);
  return p;
}
