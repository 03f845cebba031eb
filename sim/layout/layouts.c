/* SPDX-License-Identifier: Apache-2.0
 *
 * The account of a cell's layouts: its memory, and one layer's share
 * (sim/layout/layouts.h).
 */
#include "sim/layout/layouts_part.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- life --------------------------------------------------------------- */

static kv_rc open_record(const kv_layouts *l, kv_layout_account *a, kv_err *e) {
  size_t layers = (size_t)l->layers, points = layers * (size_t)l->points;
  size_t lanes = (size_t)l->lanes;
  if (!kv_layout_tabled(a->asked->layout)) {
    a->point = kv_zalloc((size_t)l->points, sizeof *a->point);
    return a->point ? KV_OK : kv_no_memory(e, "what a request holds", points);
  }
  a->count = kv_zalloc(points, lanes * sizeof *a->count);
  a->moved = kv_zalloc(points, sizeof *a->moved);
  a->tier = kv_zalloc(layers, KV_TIERS * sizeof *a->tier);
  if (a->count && a->moved && a->tier) return KV_OK;
  return kv_no_memory(e, "what a request holds",
                      points * lanes * sizeof *a->count);
}

static kv_rc open_account(const kv_layouts *l, kv_layout_account *a,
                          kv_err *e) {
  const kv_layout_room room = {l->shape, l->needs, l->lanes, l->layers,
                               l->points};
  size_t rows = (size_t)l->rows, points = rows * (size_t)l->points;
  if (a->asked->layout->shared)
    a->asked->layout->shared(a->asked, &room, &a->shared);
  a->words = ((size_t)a->shared.pages + 63) / 64;
  a->at = kv_zalloc(points, sizeof *a->at);
  a->tables = kv_zalloc(rows, sizeof *a->tables);
  a->held = kv_zalloc(points * a->words, sizeof *a->held);
  a->wrote = kv_zalloc(rows * (size_t)a->shared.pages, sizeof *a->wrote);
  a->left = kv_zalloc(rows * (size_t)a->shared.pages, sizeof *a->left);
  a->ranks = kv_layout_ranks(a->asked);
  size_t regular = a->asked->layout->task ? points * (size_t)a->ranks : 0;
  a->regular = kv_zalloc(regular, sizeof *a->regular);
  if (a->at && a->regular && a->tables && a->held && a->wrote && a->left)
    return a->asked->record ? open_record(l, a, e) : KV_OK;
  return kv_no_memory(e, "the account of a layout",
                      points * (sizeof *a->at + a->words * sizeof *a->held));
}

kv_rc kv_layouts_open(const kv_layout_list *asked, const kv_shape *shape,
                      const kv_needs *needs, int layers, int lanes, int blocks,
                      bool apart, kv_layouts **out, kv_err *e) {
  kv_layouts *l = kv_zalloc(1, sizeof *l);
  *out = NULL;
  if (!l) return kv_no_memory(e, "layouts", sizeof *l);
  *l = (kv_layouts){.shape = shape,
                    .needs = needs,
                    .layers = layers,
                    .lanes = lanes,
                    .blocks = blocks,
                    .points = blocks + shape->n_tokens - shape->prompt_len,
                    .rows = apart ? layers : 1,
                    .of = kv_zalloc((size_t)asked->n, sizeof *l->of)};
  kv_rc rc = l->of ? KV_OK : kv_no_memory(e, "layouts", sizeof *l->of);
  for (int i = 0; !rc && i < asked->n; i++) {
    l->of[l->n].asked = &asked->item[i];
    rc = open_account(l, &l->of[l->n++], e);
  }
  if (rc) {
    kv_layouts_close(l);
    return rc;
  }
  for (int i = 0; i < l->rows; i++) kv_layouts_layer_begin(l, i);
  *out = l;
  return KV_OK;
}

void kv_layouts_close(kv_layouts *l) {
  if (!l) return;
  for (int i = 0; i < l->n; i++) {
    free(l->of[i].at);
    free(l->of[i].regular);
    free(l->of[i].tables);
    free(l->of[i].held);
    free(l->of[i].wrote);
    free(l->of[i].left);
    free(l->of[i].count);
    free(l->of[i].moved);
    free(l->of[i].tier);
    free(l->of[i].point);
  }
  free(l->of);
  free(l);
}

int kv_layouts_seen(const kv_layouts *l, int block) {
  int prompt = l->shape->prompt_len, past = block - (l->blocks - 1);
  return past >= 0 ? prompt + past : (block + 1) * l->needs->block;
}

int kv_layouts_row(const kv_layouts *l, int layer) {
  assert(layer >= 0 && layer < l->layers);
  return l->rows == 1 ? 0 : layer;
}

/* --- one layer ---------------------------------------------------------- */

typedef struct part {
  void *at;
  size_t size;
} part;

enum { PARTS = 6 };

static void parts_of(const kv_layouts *l, const kv_layout_account *a, int row,
                     part out[PARTS]) {
  size_t points = (size_t)l->points, r = (size_t)row;
  size_t pages = (size_t)a->shared.pages;
  out[0] = (part){a->at + r * points, points * sizeof *a->at};
  out[1] = (part){a->held + r * points * a->words,
                  points * a->words * sizeof *a->held};
  out[2] = (part){a->wrote + r * pages, pages * sizeof *a->wrote};
  out[3] = (part){a->left + r * pages, pages * sizeof *a->left};
  out[4] = (part){a->tables + r, sizeof *a->tables};
  size_t regular = a->asked->layout->task ? points * (size_t)a->ranks : 0;
  out[5] = (part){a->regular + r * regular, regular * sizeof *a->regular};
}

void kv_layouts_layer_begin(kv_layouts *l, int layer) {
  for (int i = 0; i < l->n; i++) {
    part p[PARTS];
    parts_of(l, &l->of[i], layer, p);
    for (int j = 0; j < PARTS; j++) memset(p[j].at, 0, p[j].size);
  }
}

void kv_layouts_layer_copy(kv_layouts *l, int layer, kv_copier *x) {
  assert(l->rows == l->layers && "layers are held apart");
  for (int i = 0; i < l->n; i++) {
    part p[PARTS];
    parts_of(l, &l->of[i], layer, p);
    for (int j = 0; j < PARTS; j++) kv_copy(x, p[j].at, p[j].size);
  }
}

int64_t kv_layouts_name(const kv_layouts *l) {
  uint64_t x =
      1469598103934665603u; /* FNV-1a of the names, each with its end */
  for (int i = 0; i < l->n; i++)
    for (const char *c = l->of[i].asked->name;; c++) {
      x = (x ^ (uint8_t)*c) * 1099511628211u;
      if (!*c) break;
    }
  return (int64_t)(x >> 1);
}
