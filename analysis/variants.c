/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/variants.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 160 };

static bool same_place(const kv_grid *g, int a, int b) {
  static const char *const name[] = {"method", "trace", "prompt_len", "budget"};
  for (int i = 0; i < 4; i++)
    if (strcmp(kv_grid_text(g, a, name[i]), kv_grid_text(g, b, name[i])))
      return false;
  return true;
}

/* Does any row of a's method differ from another at its place in key? The
 * answer is one per method and key, remembered in *known. */
static bool tells_apart(const kv_grid *g, json_t **params, const char *method,
                        const char *key) {
  for (int a = 0; a < g->rows; a++) {
    if (strcmp(kv_grid_text(g, a, "method"), method)) continue;
    for (int b = 0; b < a; b++)
      if (same_place(g, a, b) && !json_equal(json_object_get(params[a], key),
                                             json_object_get(params[b], key)))
        return true;
  }
  return false;
}

static void append(char *label, const char *key, json_t *value) {
  size_t n = strlen(label);
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(7));
  const char *bare = json_is_string(value) ? json_string_value(value) : text;
  snprintf(label + n, LABEL - n, " %s=%s", key, bare ? bare : "");
  free(text);
}

/* Keys that tell rows of a method apart: {"page": true, ...}. */
static json_t *keys_of(const kv_grid *g, json_t **params, int row) {
  const char *method = kv_grid_text(g, row, "method"), *key;
  json_t *keys = json_object(), *value;
  json_object_foreach(params[row], key,
                      value) if (strcmp(key, "budget") &&
                                 tells_apart(g, params, method, key))
      json_object_set_new(keys, key, json_true());
  return keys;
}

static bool label_rows(const kv_grid *g, json_t **params, char **label) {
  json_t *methods = json_object();
  for (int r = 0; r < g->rows; r++) {
    const char *method = kv_grid_text(g, r, "method"), *key;
    json_t *keys = json_object_get(methods, method), *value;
    if (!(label[r] = calloc(1, LABEL))) break;
    if (!keys)
      json_object_set_new(methods, method, keys = keys_of(g, params, r));
    snprintf(label[r], LABEL, "%s", method);
    json_object_foreach(params[r], key, value) if (json_object_get(keys, key))
        append(label[r], key, value);
  }
  json_decref(methods);
  return !g->rows || label[g->rows - 1];
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted and unique copies of the labels of rows. */
static bool collect(char **label, kv_variants *v) {
  bool good = true;
  for (int r = 0; r < v->rows; r++) v->label[r] = label[r];
  qsort(v->label, (size_t)v->rows, sizeof *v->label, by_text);
  for (int r = 0; r < v->rows; r++) {
    if (v->n && !strcmp(v->label[v->n - 1], v->label[r])) continue;
    v->label[v->n++] = v->label[r];
  }
  for (int r = 0; r < v->rows; r++) v->of[r] = kv_variants_same(v, label[r]);
  for (int i = 0; i < v->n; i++) {
    v->label[i] = strdup(v->label[i]);
    good = good && v->label[i];
  }
  return good;
}

bool kv_variants_find(const kv_grid *g, kv_variants *out) {
  size_t n = (size_t)g->rows + 1;
  json_t **params = calloc(n, sizeof *params);
  char **label = calloc(n, sizeof *label);
  bool good = false;
  *out = (kv_variants){0, calloc(n, sizeof *out->label), g->rows,
                       calloc(n, sizeof *out->of)};
  if (!params || !label || !out->label || !out->of) goto out;
  for (int r = 0; r < g->rows; r++)
    params[r] = json_loads(kv_grid_text(g, r, "params"), 0, NULL);
  good = label_rows(g, params, label);
  good = good && collect(label, out);
out:
  for (int r = 0; params && r < g->rows; r++) json_decref(params[r]);
  for (int r = 0; label && r < g->rows; r++) free(label[r]);
  free(params);
  free(label);
  return good;
}

void kv_variants_free(kv_variants *v) {
  for (int i = 0; v->label && i < v->n; i++) free(v->label[i]);
  free(v->label);
  free(v->of);
  memset(v, 0, sizeof *v);
}

int kv_variants_same(const kv_variants *v, const char *label) {
  for (int i = 0; i < v->n; i++)
    if (!strcmp(v->label[i], label)) return i;
  return -1;
}
