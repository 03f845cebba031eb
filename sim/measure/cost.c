/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeding the ledger: sim/measure/cost.h. Integers are added or maximised.
 */
#include "sim/measure/cost_part.h"
#include <stdlib.h>
#include <string.h>

/* --- life --------------------------------------------------------------- */

void kv_cost_close(kv_cost *c) {
  if (!c) return;
  free(c->at);
  free(c->verbs);
  free(c->kept);
  free(c);
}

void kv_cost_take_windows(kv_cost *c, const int *window, bool left) {
  c->window = window;
  c->left = 0;
  for (int l = 0; window && l < c->layers; l++) c->left += window[l] > 0;
  if (!left || c->left == c->layers) c->left = 0;
}

void kv_cost_take_groups(kv_cost *c, const int *group) {
  assert((!group || c->rows == c->layers) && "layers are held apart");
  c->group = group;
}

void kv_cost_take_queries(kv_cost *c, int64_t bytes) { c->queries = bytes; }

static void set(kv_counter *c, int64_t x) {
  atomic_store_explicit(c, x, memory_order_relaxed);
}

static int row_of(const kv_cost *c, int layer) {
  assert(layer >= 0 && layer < c->layers);
  return c->rows == 1 ? 0 : layer;
}

static kv_cost_block *block_of(const kv_cost *c, int layer, int block) {
  return kv_cost_block_of(c, row_of(c, layer), block);
}

static void begin_row(kv_cost *c, int row) {
  for (int i = 0; i < c->points; i++) {
    kv_cost_block *h = kv_cost_block_of(c, row, i);
    for (int j = 0; j < KV_N_BYTE_KINDS; j++) set(&h->compressed[j], 0);
    set(&h->read, 0);
    set(&h->scanned, 0);
    set(&h->fetched, 0);
    set(&h->attended, 0);
    set(&h->made, 0);
    set(&h->excess, INT64_MIN);
    set(&h->codes_excess, INT64_MIN);
  }
  set(&c->verbs[row].records, 0);
  set(&c->verbs[row].moved, 0);
}

kv_rc kv_cost_open(const kv_shape *shape, int layers, int lanes, int blocks,
                   bool apart, kv_cost **out, kv_err *e) {
  assert(blocks >= 1 && "a prompt has at least one block");
  int points = blocks + shape->n_tokens - shape->prompt_len;
  kv_cost *c = kv_zalloc(1, sizeof *c);
  *out = NULL;
  if (!c) return kv_no_memory(e, "the ledger", sizeof *c);
  c->shape = shape;
  c->layers = layers;
  c->lanes = lanes;
  c->blocks = blocks;
  c->points = points;
  c->rows = apart ? layers : 1;
  size_t all = (size_t)c->rows * (size_t)points;
  c->at = kv_zalloc(all, sizeof *c->at);
  c->verbs = kv_zalloc((size_t)c->rows, sizeof *c->verbs);
  c->kept = kv_zalloc((size_t)layers * (size_t)lanes, sizeof *c->kept);
  if (!c->at || !c->verbs || !c->kept) {
    kv_cost_close(c);
    return kv_no_memory(e, "the ledger", all * sizeof(kv_cost_block));
  }
  for (int i = 0; i < c->rows; i++) begin_row(c, i);
  *out = c;
  return KV_OK;
}

void kv_cost_copy(const kv_cost *from, kv_cost *to) {
  size_t rows = (size_t)from->rows, points = (size_t)from->points;
  size_t lanes = (size_t)from->layers * (size_t)from->lanes;
  assert(to->rows == from->rows && to->points == from->points &&
         to->layers == from->layers && to->lanes == from->lanes);
  memcpy(to->at, from->at, rows * points * sizeof *to->at);
  memcpy(to->verbs, from->verbs, rows * sizeof *to->verbs);
  memcpy(to->kept, from->kept, lanes * sizeof *to->kept);
}

/* --- one layer ---------------------------------------------------------- */

void kv_cost_layer_begin(kv_cost *c, int layer) {
  assert(c->rows == c->layers && "layers are held apart");
  begin_row(c, layer);
}

void kv_cost_layer_copy(kv_cost *c, int layer, kv_copier *x) {
  assert(c->rows == c->layers && "layers are held apart");
  kv_copy(x, block_of(c, layer, 0), (size_t)c->points * sizeof *c->at);
  kv_copy(x, &c->verbs[layer], sizeof *c->verbs);
  kv_copy(x, c->kept + layer * c->lanes, (size_t)c->lanes * sizeof *c->kept);
}

/* --- feeding ------------------------------------------------------------ */

void kv_cost_held(kv_cost *c, int layer, int block, const kv_bytes *before,
                  int64_t materialised, const kv_bytes *compressed) {
  kv_cost_block *h = block_of(c, layer, block);
  for (int j = 0; j < KV_N_BYTE_KINDS; j++)
    kv_counter_add(&h->compressed[j], kv_bytes_get(compressed, j));
  kv_counter_add(&h->made, c->group ? materialised : 0);
  kv_counter_raise(&h->excess, kv_bytes_total(before) +
                                   (c->group ? 0 : materialised) -
                                   kv_bytes_total(compressed));
  kv_counter_raise(&h->codes_excess, before->payload - compressed->payload);
}

void kv_cost_read(kv_cost *c, int layer, int block, const kv_cost_row *row) {
  kv_cost_block *h = block_of(c, layer, block);
  assert(block >= c->blocks && "decode steps only");
  kv_counter_add(&h->read, row->bytes);
  kv_counter_add(&h->scanned, row->scanned);
  kv_counter_add(&h->fetched, row->fetched);
  kv_counter_add(&h->attended, row->attended);
}

void kv_cost_moved(kv_cost *c, int layer, const kv_cost_verbs *v) {
  kv_cost_changes *of = &c->verbs[row_of(c, layer)];
  kv_counter_add(&of->records, v->records);
  kv_counter_add(&of->moved, v->moved);
}

void kv_cost_kept(kv_cost *c, int layer, int lane, int entries) {
  assert(layer < c->layers && lane < c->lanes);
  c->kept[layer * c->lanes + lane] = entries;
}
