/* SPDX-License-Identifier: Apache-2.0
 *
 * Models by name or by config.json: sim/capacity/model.h.
 */
#include "sim/capacity/model.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "traces/container/index.h"
#include "traces/option/option.h"
#include "traces/text/text.h"
#include "traces/trace/parameters.h"
#include "traces/trace/plan.h"

static kv_rc take_memory(kv_served *m, kv_err *e) {
  size_t n = (size_t)m->n_layers, d = (size_t)m->shape.d;
  m->layer = calloc(n, sizeof *m->layer);
  m->window = calloc(n, sizeof *m->window);
  m->inv_freq = calloc(d / 2 + 1, sizeof *m->inv_freq);
  if (m->layer && m->window && m->inv_freq) return KV_OK;
  return kv_no_memory(e, "a model", n * sizeof *m->layer);
}

static kv_rc of_table(const kv_geometry *g, kv_served *m, kv_err *e) {
  kv_parameters p = kv_geometry_parameters(g);
  m->shape = (kv_shape){.n_layers = g->n_layers,
                        .n_heads = g->n_heads,
                        .n_kv_heads = g->n_kv_heads,
                        .d = g->d,
                        .d_v = g->d,
                        .dtype = g->dtype};
  m->n_layers = g->n_layers;
  m->parameters = p.all;
  m->active = p.active;
  kv_rc rc = take_memory(m, e);
  for (int i = 0; !rc && i < m->n_layers; i++) {
    m->layer[i] = i;
    m->window[i] = kv_geometry_window(g, i);
  }
  if (!rc) kv_geometry_frequencies(g, 0, m->inv_freq);
  return rc;
}

/* --- a config.json -------------------------------------------------------- */

static int64_t whole(const json_t *in, const char *key) {
  const json_t *x = json_object_get(in, key);
  return json_is_integer(x) ? json_integer_value(x) : 0;
}

/* Weights of a decoder whose layers are attention and one gated perceptron, as
 * Llama's; 0 for another, whose weights --weights gives in bytes. */
static void count_weights(const json_t *text, kv_served *m) {
  const char *type = json_string_value(json_object_get(text, "model_type"));
  static const char *const known[] = {"llama", "mistral", "qwen2", "qwen3"};
  const kv_shape *s = &m->shape;
  int64_t h = whole(text, "hidden_size"), ff = whole(text, "intermediate_size");
  int64_t words = whole(text, "vocab_size"), d = s->d;
  int64_t q = s->n_heads * d, kv = 2 * s->n_kv_heads * d, i = 0;
  while (i < 4 && type && strcmp(type, known[i]) != 0) i++;
  if (!type || i == 4 || !h || !ff || !words) return;
  int64_t layer = 2 * h * q + h * kv + 3 * h * ff + 2 * h;
  if (i == 2) layer += q + kv;
  if (i == 3) layer += 2 * d;
  m->active = s->n_layers * layer + h + words * h;
  m->parameters = m->active;
  if (!json_is_true(json_object_get(text, "tie_word_embeddings")))
    m->parameters += words * h;
}

static kv_rc take_windows(const char *path, const json_t *text, kv_served *m,
                          kv_err *e) {
  int window = (int)whole(text, "sliding_window");
  const json_t *types = json_object_get(text, "layer_types");
  const char *type = json_string_value(json_object_get(text, "model_type"));
  char a[KV_SHOW];
  if (window < 2 || json_is_false(json_object_get(text, "use_sliding_window")))
    return KV_OK;
  if (!types && !(type && strcmp(type, "mistral") == 0))
    return kv_fail(e, KV_INPUT,
                   "%s: has a sliding_window and no layer_types that say which "
                   "layers it is of; add them, or name a model of the table",
                   kv_show(path, a));
  for (int i = 0; i < m->n_layers; i++) {
    const char *of =
        json_string_value(json_array_get(types, (size_t)m->layer[i]));
    if (!types || (of && strcmp(of, "sliding_attention") == 0))
      m->window[i] = window;
  }
  return KV_OK;
}

static kv_rc of_config(const char *path, kv_served *m, kv_err *e) {
  kv_plan p = {0};
  json_t *root = NULL;
  kv_rc rc = kv_plan_of_config(path, &p, e);
  if (!rc) rc = kv_st_json_file(path, "configuration", &root, e);
  const json_t *text = json_object_get(root, "text_config");
  if (!json_is_object(text)) text = root;
  m->shape = p.shape;
  m->n_layers = p.n;
  if (!p.typed) m->shape.dtype = KV_BF16;
  if (!rc) rc = take_memory(m, e);
  double theta = json_number_value(json_object_get(text, "rope_theta"));
  for (int i = 0; !rc && i < p.n; i++) m->layer[i] = p.layer[i].layer;
  for (int i = 0; !rc && i < m->shape.d / 2; i++)
    m->inv_freq[i] =
        (float)pow(theta > 0 ? theta : 10000, -2.0 * i / m->shape.d);
  if (!rc) rc = take_windows(path, text, m, e);
  if (!rc) count_weights(text, m);
  kv_plan_free(&p);
  json_decref(root);
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
  struct stat there;
  char path[4096];
  *out = (kv_served){.name = text};
  if (g) return of_table(g, out, e);
  if (stat(text, &there)) return no_such(text, e);
  int n = snprintf(path, sizeof path, "%s%s", text,
                   S_ISDIR(there.st_mode) ? "/config.json" : "");
  if (n < 0 || (size_t)n >= sizeof path) return no_such(text, e);
  return of_config(path, out, e);
}

void kv_served_close(kv_served *m) {
  free(m->layer);
  free(m->window);
  free(m->inv_freq);
  *m = (kv_served){0};
}
