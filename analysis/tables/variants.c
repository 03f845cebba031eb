/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/tables/variants.h"
#include "analysis/tables/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 160, DECLARED = 38 /* the most that a table shows in full */ };

typedef struct rows {
  const kv_grid *g;
  json_t **params;
  char (*name)[LABEL];
  int *first; /* the first row with its name and place */
} rows;

/* A row's name before its parameters. Replayed decisions have the name that
 * their maker declared, with "(replay)" since it may be a method's name. */
static void name_row(const rows *x, int row) {
  const char *method = kv_grid_text(x->g, row, "method");
  const char *declared =
      json_string_value(json_object_get(x->params[row], "name"));
  if (!strcmp(method, "replay") && declared && *declared)
    snprintf(x->name[row], LABEL, "%.*s (replay)",
             kv_text_cut(declared, DECLARED), declared);
  else
    snprintf(x->name[row], LABEL, "%s", method);
}

/* --- parameters that distinguish rows ------------------------------------- */

enum { AT = 5 };

typedef struct place {
  const char *at[AT]; /* trace, prompt_len, observe, budget, name */
  char *budgets;      /* the parameter `budget` as JSON: of a list, a budget per
                         layer, the grid has only the mean; NULL: none */
  int row;
} place;

static int differ(const place *a, const place *b) {
  int d = 0;
  for (int i = 0; i < AT && !d; i++) d = strcmp(a->at[i], b->at[i]);
  if (d) return d;
  return strcmp(a->budgets ? a->budgets : "", b->budgets ? b->budgets : "");
}

static int by_place(const void *a, const void *b) {
  const place *x = a, *y = b;
  int d = differ(x, y);
  return d ? d : x->row - y->row;
}

static place place_of(const rows *x, int row) {
  static const char *const name[] = {"trace", "prompt_len", "observe",
                                     "budget"};
  json_t *budget = json_object_get(x->params[row], "budget");
  place out = {.row = row};
  for (int i = 0; i < AT - 1; i++) out.at[i] = kv_grid_text(x->g, row, name[i]);
  out.at[AT - 1] = x->name[row];
  out.budgets = budget ? json_dumps(budget, JSON_ENCODE_ANY) : NULL;
  return out;
}

/* Sets x->first of each row: the first with its place and name. False: no
 * memory. */
static bool find_firsts(rows *x) {
  place *all = calloc((size_t)x->g->rows + 1, sizeof *all);
  int n = x->g->rows, first = 0;
  for (int r = 0; all && r < n; r++) all[r] = place_of(x, r);
  if (all) qsort(all, (size_t)n, sizeof *all, by_place);
  for (int i = 0; all && i < n; i++) {
    if (!i || differ(all + i, all + i - 1)) first = all[i].row;
    x->first[all[i].row] = first;
  }
  for (int i = 0; all && i < n; i++) free(all[i].budgets);
  free(all);
  return all;
}

/* Does any row of that name differ from the first at its place in key? */
static bool tells_apart(const rows *x, const char *name, const char *key) {
  for (int r = 0; r < x->g->rows; r++)
    if (x->first[r] != r && !strcmp(x->name[r], name) &&
        !json_equal(json_object_get(x->params[r], key),
                    json_object_get(x->params[x->first[r]], key)))
      return true;
  return false;
}

static void append(char *label, const char *key, json_t *value) {
  size_t n = strlen(label);
  char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(7));
  const char *bare = json_is_string(value) ? json_string_value(value) : text;
  snprintf(label + n, LABEL - n, " %s=%s", key, bare ? bare : "");
  free(text);
}

/* Parameters that distinguish rows of a name: {"page": true, ...}. */
static json_t *keys_of(const rows *x, int row) {
  const char *key;
  json_t *keys = json_object(), *value;
  json_object_foreach(x->params[row], key,
                      value) if (strcmp(key, "budget") &&
                                 tells_apart(x, x->name[row], key))
      json_object_set_new(keys, key, json_true());
  return keys;
}

static bool label_rows(const rows *x, char **label) {
  json_t *names = json_object();
  for (int r = 0; r < x->g->rows; r++) {
    const char *name = x->name[r], *key;
    json_t *keys = json_object_get(names, name), *value;
    if (!(label[r] = calloc(1, LABEL))) break;
    if (!keys) json_object_set_new(names, name, keys = keys_of(x, r));
    snprintf(label[r], LABEL, "%s", name);
    json_object_foreach(x->params[r], key,
                        value) if (json_object_get(keys, key))
        append(label[r], key, value);
  }
  json_decref(names);
  return !x->g->rows || label[x->g->rows - 1];
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
  rows x = {g, calloc(n, sizeof *x.params), calloc(n, sizeof *x.name),
            calloc(n, sizeof *x.first)};
  char **label = calloc(n, sizeof *label);
  bool good = false;
  *out = (kv_variants){0, calloc(n, sizeof *out->label), g->rows,
                       calloc(n, sizeof *out->of), NULL};
  if (!x.params || !x.name || !x.first || !label || !out->label || !out->of)
    goto out;
  for (int r = 0; r < g->rows; r++) {
    x.params[r] = json_loads(kv_grid_text(g, r, "params"), 0, NULL);
    name_row(&x, r);
  }
  good = find_firsts(&x) && label_rows(&x, label);
  good = good && collect(label, out);
out:
  for (int r = 0; x.params && r < g->rows; r++) json_decref(x.params[r]);
  for (int r = 0; label && r < g->rows; r++) free(label[r]);
  free(x.params);
  free(x.name);
  free(x.first);
  free(label);
  return good;
}

void kv_variants_free(kv_variants *v) {
  for (int i = 0; v->label && i < v->n; i++) free(v->label[i]);
  free(v->label);
  free(v->of);
  free(v->look);
  memset(v, 0, sizeof *v);
}

int kv_variants_same(const kv_variants *v, const char *label) {
  for (int i = 0; i < v->n; i++)
    if (!strcmp(v->label[i], label)) return i;
  return -1;
}
