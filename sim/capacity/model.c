/* SPDX-License-Identifier: Apache-2.0
 *
 * Models by name or by a file: sim/capacity/model.h.
 */
#include "sim/capacity/model.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "traces/container/index.h"
#include "traces/option/option.h"
#include "traces/text/text.h"
#include "traces/trace/keep.h"

const char *const kv_served_types[3] = {"F16", "BF16", "F32"};

enum { DIM = 65536 }; /* heads, and dimensions of one, at most */

static kv_rc take_memory(kv_served *m, kv_err *e) {
  size_t n = (size_t)m->n_layers, d = (size_t)m->shape.d;
  m->layer = calloc(n, sizeof *m->layer);
  m->window = calloc(n, sizeof *m->window);
  m->inv_freq = calloc(d / 2 + 1, sizeof *m->inv_freq);
  if (m->layer && m->window && m->inv_freq) return KV_OK;
  return kv_no_memory(e, "a model", n * sizeof *m->layer);
}

static kv_rc of_table(const kv_geometry *g, kv_served *m, kv_err *e) {
  m->shape = (kv_shape){.n_layers = g->n_layers,
                        .n_heads = g->n_heads,
                        .n_kv_heads = g->n_kv_heads,
                        .d = g->d,
                        .d_v = g->d,
                        .dtype = g->dtype};
  m->n_layers = g->n_layers;
  m->weights = kv_geometry_parameters(g);
  kv_rc rc = take_memory(m, e);
  for (int i = 0; !rc && i < m->n_layers; i++) {
    m->layer[i] = i;
    m->window[i] = kv_geometry_window(g, i);
  }
  if (!rc) kv_geometry_frequencies(g, 0, m->inv_freq);
  return rc;
}

/* --- a file --------------------------------------------------------------- */

/* The number of `key`, from 1 to most; of a list, of its i-th element from 0.
 */
static kv_rc number(const kv_served *m, const json_t *in, const char *key,
                    int i, int most, int *out, kv_err *e) {
  const json_t *x = json_object_get(in, key);
  char a[KV_SHOW];
  bool list = i >= 0;
  if (list) x = json_array_get(x, (size_t)i);
  json_int_t value = json_integer_value(x);
  *out = (int)value;
  if (json_is_integer(x) && value >= !list && value <= most) return KV_OK;
  return kv_fail(e, KV_INPUT, "%s: %s is no whole number%s from %d to %d",
                 kv_show(m->name, a), key, list ? "s" : "", !list, most);
}

static kv_rc read_shape(const json_t *in, kv_served *m, kv_err *e) {
  struct {
    const char *key;
    int most, *out;
  } const part[] = {{"layers", KV_KEEP_LAYERS, &m->shape.n_layers},
                    {"heads", DIM, &m->shape.n_heads},
                    {"kv_heads", DIM, &m->shape.n_kv_heads},
                    {"d", DIM, &m->shape.d},
                    {"d_v", DIM, &m->shape.d_v}};
  const char *type = json_string_value(json_object_get(in, "type"));
  kv_rc rc = KV_OK;
  char a[KV_SHOW];
  for (size_t i = 0; !rc && i < sizeof part / sizeof *part; i++)
    rc = number(m, in, part[i].key, -1, part[i].most, part[i].out, e);
  if (rc) return rc;
  m->n_layers = (int)json_array_size(json_object_get(in, "layer"));
  int t = 0;
  while (t < 3 && (!type || strcmp(type, kv_served_types[t]) != 0)) t++;
  m->shape.dtype = (kv_dtype)t;
  if (t < 3 && m->shape.n_heads % m->shape.n_kv_heads == 0 && m->n_layers > 0 &&
      m->n_layers <= m->shape.n_layers)
    return KV_OK;
  return kv_fail(e, KV_INPUT,
                 "%s: type is not F16, BF16 or F32, heads do not divide among "
                 "kv_heads, or layer is no list of at most that many layers",
                 kv_show(m->name, a));
}

static kv_rc of_file(kv_served *m, kv_err *e) {
  json_t *in = NULL;
  kv_rc rc = kv_st_json_file(m->name, "model", &in, e);
  if (!rc) rc = read_shape(in, m, e);
  if (!rc) rc = take_memory(m, e);
  for (int i = 0; !rc && i < m->n_layers; i++) {
    rc = number(m, in, "layer", i, m->shape.n_layers - 1, &m->layer[i], e);
    if (!rc) rc = number(m, in, "window", i, INT_MAX, &m->window[i], e);
  }
  for (int i = 0; !rc && i < m->shape.d / 2; i++)
    m->inv_freq[i] = (float)pow(10000, -2.0 * i / m->shape.d);
  const char *why = json_string_value(json_object_get(in, "refused"));
  snprintf(m->refused, sizeof m->refused, "%s", why ? why : "");
  json_decref(in);
  return rc;
}

/* --- by name -------------------------------------------------------------- */

const char *kv_served_name(int i) {
  int n;
  const kv_geometry *all = kv_geometries(&n);
  return i < n ? all[i].name : NULL;
}

static kv_rc no_such(const char *text, kv_err *e) {
  const char *names[64];
  int n = 0;
  while (n < 64 && (names[n] = kv_served_name(n))) n++;
  return kv_no_such("model or config.json", text, n, names,
                    "`kvtrace plan --help` names those that are known", e);
}

kv_rc kv_served_open(const char *text, kv_served *out, kv_err *e) {
  const kv_geometry *g = kv_geometry_find(text);
  *out = (kv_served){.name = text};
  if (g) return of_table(g, out, e);
  return access(text, F_OK) ? no_such(text, e) : of_file(out, e);
}

void kv_served_close(kv_served *m) {
  free(m->layer);
  free(m->window);
  free(m->inv_freq);
  *m = (kv_served){0};
}
