/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaves of the digest trees: ref/leaves.h.
 */
#include "ref/leaves.h"

void kv_leaves_begin(kv_leaves *l) {
  kv_tree_begin(&l->journal);
  kv_tree_begin(&l->states);
  kv_tree_begin(&l->outputs);
}

static void close_leaf(kv_sha256 *h, kv_tree *tree) {
  kv_digest leaf = kv_sha256_end(h);
  kv_tree_leaf(tree, &leaf);
}

void kv_leaves_records(kv_leaves *l, int lanes, kv_lane *lane) {
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

kv_layer_digests kv_leaves_end(kv_leaves *l) {
  return (kv_layer_digests){.journal = kv_tree_end(&l->journal),
                            .state = kv_tree_end(&l->states),
                            .output = kv_tree_end(&l->outputs)};
}
