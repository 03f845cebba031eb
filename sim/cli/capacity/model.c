/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/capacity/model.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/ground/text.h"
#include "traces/container/index.h"
#include "traces/option/option.h"
#include "traces/trace/keep.h"

const char *const kv_served_types[3] = {"F16", "BF16", "F32"};

enum { DIM = 65536 }; /* most heads, and most dimensions of a head */

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

static bool is_shape(const kv_served *m) {
  const kv_shape *s = &m->shape;
  const int part[] = {s->n_heads, s->n_kv_heads, s->d, s->d_v};
  bool good = s->dtype <= KV_F32 && s->n_layers <= KV_KEEP_LAYERS &&
              m->n_layers > 0 && m->n_layers <= s->n_layers;
  for (int i = 0; i < 4; i++) good = good && part[i] > 0 && part[i] <= DIM;
  return good && s->n_heads % s->n_kv_heads == 0;
}

static bool fill(const json_t *layer, const json_t *window, kv_served *m) {
  bool good = true;
  for (int i = 0; i < m->n_layers; i++) {
    json_int_t l = json_integer_value(json_array_get(layer, (size_t)i));
    json_int_t w = json_integer_value(json_array_get(window, (size_t)i));
    good = good && l >= 0 && l < m->shape.n_layers && w >= 0 && w <= INT_MAX;
    m->layer[i] = (int)l;
    m->window[i] = (int)w;
  }
  for (int i = 0; i < m->shape.d / 2; i++)
    m->inv_freq[i] = (float)pow(10000, -2.0 * i / m->shape.d);
  return good;
}

static kv_rc of_file(kv_served *m, kv_err *e) {
  json_t *in = NULL, *layer = NULL, *window = NULL;
  const char *type = "", *why = "";
  kv_shape *s = &m->shape;
  char a[KV_SHOW];
  kv_rc rc = kv_st_json_file(m->name, "model", &in, e);
  if (rc) return rc;
  bool good =
      !json_unpack(in, "{s:i,s:i,s:i,s:i,s:i,s:s,s?s,s:o,s:o}", "layers",
                   &s->n_layers, "heads", &s->n_heads, "kv_heads",
                   &s->n_kv_heads, "d", &s->d, "d_v", &s->d_v, "type", &type,
                   "refused", &why, "layer", &layer, "window", &window);
  int t = 0;
  while (t < 3 && strcmp(type, kv_served_types[t]) != 0) t++;
  s->dtype = (kv_dtype)t;
  m->n_layers = (int)json_array_size(layer);
  snprintf(m->refused, sizeof m->refused, "%s", why);
  good =
      good && is_shape(m) && json_array_size(window) == json_array_size(layer);
  if (good) rc = take_memory(m, e);
  if (!rc && !(good && fill(layer, window, m)))
    rc = kv_fail(e, KV_INPUT,
                 "%s is not a model as `kvreplay lengths` prints one",
                 kv_show(m->name, a));
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
                    "`kvtrace plan --help` lists the known ones", e);
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
