/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaves of the digest trees: ref/backend/leaves.h.
 */
#include "ref/backend/leaves.h"

void kv_leaves_begin(kv_leaves *l) {
  kv_tree_begin(&l->journal);
  kv_tree_begin(&l->states);
  kv_tree_begin(&l->outputs);
  kv_tree_begin(&l->scores);
}

static void close_leaf(kv_sha256 *h, kv_tree *tree) {
  kv_digest leaf = kv_sha256_end(h);
  kv_tree_leaf(tree, &leaf);
}

static void add_message(kv_sha256 *h, int step, const kv_message *said,
                        size_t bytes) {
  const uint32_t head[] = {KV_PUBLISHED, (uint32_t)said->layer, (uint32_t)step,
                           (uint32_t)bytes};
  kv_sha256_add(h, head, sizeof head);
  kv_sha256_add(h, said->data, bytes);
}

void kv_leaves_records(kv_leaves *l, int lanes, kv_lane *lane,
                       const kv_message *said, size_t bytes) {
  kv_sha256 h;
  kv_sha256_init(&h);
  for (int i = 0; i < lanes; i++) {
    kv_words *w = &lane[i].views;
    kv_sha256_add(&h, w->word, w->n * sizeof *w->word);
    kv_words_clear(w);
  }
  for (int i = 0; i < lanes; i++) {
    kv_words *w = &lane[i].verbs;
    kv_sha256_add(&h, w->word, w->n * sizeof *w->word);
    kv_words_clear(w);
  }
  if (said) add_message(&h, lane[0].step, said, bytes);
  close_leaf(&h, &l->journal);
}

void kv_leaves_state(kv_leaves *l, int lanes, const kv_digest *state) {
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_sha256_add(&h, state, (size_t)lanes * sizeof *state);
  close_leaf(&h, &l->states);
}

void kv_leaves_output(kv_leaves *l, const kv_shape *shape, const float *out) {
  size_t n = (size_t)shape->n_heads * (size_t)(shape->d_v + 1);
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_sha256_add(&h, out, n * sizeof *out);
  close_leaf(&h, &l->outputs);
}

void kv_leaves_scores(kv_leaves *l, kv_shows *shows, int step) {
  kv_digest leaf;
  if (kv_shows_end(shows, step, &leaf)) kv_tree_leaf(&l->scores, &leaf);
}

kv_layer_digests kv_leaves_end(kv_leaves *l) {
  return (kv_layer_digests){.journal = kv_tree_end(&l->journal),
                            .state = kv_tree_end(&l->states),
                            .output = kv_tree_end(&l->outputs),
                            .scores = kv_tree_end(&l->scores)};
}
