/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of layers: ref/parts/layers.h.
 */
#include "ref/parts/layers.h"

#include <stdio.h>

static void filters_of(int n_layers, kv_layer_list *out) {
  static const int of_32[] = {2, 8, 18};
  int quarter = n_layers / 4 > 1 ? n_layers / 4 : 1;
  if (n_layers < KV_FEW_LAYERS) {
    out->n = 1;
    out->layer[0] = quarter < n_layers ? quarter : n_layers - 1;
    return;
  }
  out->n = 3;
  for (int i = 0; i < 3; i++)
    out->layer[i] = (2 * of_32[i] * n_layers + 32) / 64;
}

static void full_of(int n_layers, kv_layer_list *out) {
  static const kv_layer_list of_28 = {6, {0, 1, 2, 4, 7, 14}},
                             of_64 = {9, {0, 1, 2, 3, 4, 5, 17, 29, 40}};
  kv_layer_list filters;
  filters_of(n_layers, &filters);
  *out = (kv_layer_list){0};
  for (int l = 0; l < filters.layer[0]; l++) out->layer[out->n++] = l;
  for (int i = 0; i < filters.n; i++) out->layer[out->n++] = filters.layer[i];
  if (n_layers == 28) *out = of_28;
  if (n_layers == 64) *out = of_64;
}

/* The number of the model's layer that is the index-th without a window. */
static int unwindowed(const kv_shape *s, int index) {
  int l = 0;
  for (; s->windowed[l] || index > 0; l++) index -= !s->windowed[l];
  return l;
}

/* A list by `rule` among the layers without a window. */
static void list_by(void (*rule)(int n, kv_layer_list *out), const kv_shape *s,
                    kv_layer_list *out) {
  int n = s->windowed ? 0 : s->n_layers;
  for (int l = 0; s->windowed && l < s->n_layers; l++) n += !s->windowed[l];
  rule(n ? n : s->n_layers, out);
  for (int i = 0; s->windowed && n && i < out->n; i++)
    out->layer[i] = unwindowed(s, out->layer[i]);
}

void kv_filter_layers(const kv_shape *shape, kv_layer_list *out) {
  list_by(filters_of, shape, out);
}

void kv_full_layers(const kv_shape *shape, kv_layer_list *out) {
  list_by(full_of, shape, out);
}

/* Reads "2/8/18". False: not a list, or longer than a list can be. */
static bool read_list(const char *text, kv_layer_list *list) {
  list->n = 0;
  for (const char *at = text;; at++) {
    int32_t layer = 0;
    const char *from = at;
    for (; *at >= '0' && *at <= '9' && layer < 1 << 20; at++)
      layer = 10 * layer + (*at - '0');
    if (at == from || list->n == KV_LISTED_LAYERS) return false;
    list->layer[list->n++] = layer;
    if (*at == 0) return true;
    if (*at != '/') return false;
  }
}

static void write_list(const kv_layer_list *list, char text[KV_TEXT_MAX]) {
  size_t used = 0;
  for (int i = 0; i < list->n; i++)
    used += (size_t)snprintf(text + used, KV_TEXT_MAX - used, "%s%d",
                             i ? "/" : "", (int)list->layer[i]);
}

kv_rc kv_open_layers(const char *method, const char *name, int n_layers,
                     char text[KV_TEXT_MAX], kv_layer_list *list, kv_err *e) {
  if (!text[0]) {
    write_list(list, text);
    return KV_OK;
  }
  if (!read_list(text, list))
    return kv_fail(e, KV_USAGE,
                   "%s: %s=%s is not a list of layers; write at most %d "
                   "numbers separated by /, such as 2/8/18",
                   method, name, text, (int)KV_LISTED_LAYERS);
  for (int i = 0; i < list->n; i++) {
    if (i && list->layer[i] <= list->layer[i - 1])
      return kv_fail(e, KV_REFUSED,
                     "%s: %s=%s must ascend, but %d follows %d; name each "
                     "layer once, the lowest first",
                     method, name, text, (int)list->layer[i],
                     (int)list->layer[i - 1]);
    if (list->layer[i] >= n_layers)
      return kv_fail(
          e, KV_REFUSED,
          "%s: %s=%s names layer %d, but the model has layers 0 to %d", method,
          name, text, (int)list->layer[i], n_layers - 1);
  }
  return KV_OK;
}
