/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of decisions and the trees of their digests.
 */
#include "ref/lane/journal.h"
#include <stdlib.h>
#include <string.h>

kv_rc kv_words_init(kv_words *w, size_t cap, kv_err *e) {
  *w = (kv_words){.cap = cap};
  w->word = kv_zalloc(cap, sizeof *w->word);
  if (!w->word) return kv_no_memory(e, "a journal", cap * sizeof *w->word);
  return KV_OK;
}

/* A prompt can write a hundred times as many words as a decode step. */
void kv_words_clear(kv_words *w) {
  kv_give_back(w->word, w->n * sizeof *w->word);
  w->n = 0;
}

void kv_words_release(kv_words *w) {
  free(w->word);
  *w = (kv_words){0};
}

uint32_t *kv_words_record(kv_words *w, kv_record kind, int layer, int step,
                          int head, size_t count) {
  if (w->n + 5 + count > w->cap) return NULL;
  uint32_t *r = w->word + w->n;
  r[0] = (uint32_t)kind;
  r[1] = (uint32_t)layer;
  r[2] = (uint32_t)step;
  r[3] = (uint32_t)head;
  r[4] = (uint32_t)count;
  w->n += 5 + count;
  return r + 5;
}

uint32_t kv_bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

void kv_tree_begin(kv_tree *t) { kv_sha256_init(&t->layer); }

void kv_tree_leaf(kv_tree *t, const kv_digest *leaf) {
  kv_sha256_add(&t->layer, leaf->byte, sizeof leaf->byte);
}

kv_digest kv_tree_end(kv_tree *t) { return kv_sha256_end(&t->layer); }
