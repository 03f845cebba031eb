/* SPDX-License-Identifier: Apache-2.0
 *
 * info --attention: traces/cli/kvtrace_attention.h.
 */
#include "traces/cli/kvtrace_attention.h"

#include <stdio.h>
#include <stdlib.h>

#include "traces/cli/kvtrace.h"
#include "traces/text/progress.h"

static kv_rc take_layers(const kv_trace *t, kv_attention *out, kv_err *e) {
  const kv_kernels *kernel;
  kv_progress progress;
  kv_rc rc = kv_compute_setup(&kernel, e);
  if (rc) return rc;
  kv_progress_start(&progress, stderr, "attention", "layers", t->n_layers,
                    false);
  for (int i = 0; !rc && i < t->n_layers; i++) {
    rc = kv_attention_layer(t, i, kernel, out + i * t->shape.n_heads, e);
    kv_trace_release_layer(t, i);
    kv_progress_add(&progress, 1);
  }
  kv_progress_end(&progress);
  return rc;
}

kv_rc kv_attention_take(const kv_trace *t, kv_attention **out, kv_err *e) {
  size_t n = (size_t)t->n_layers * (size_t)t->shape.n_heads;
  *out = kv_zalloc(n, sizeof **out);
  if (!*out) return kv_no_memory(e, "figures of attention", n * sizeof **out);
  return take_layers(t, *out, e);
}

static json_t *real(double x, long of) {
  return of ? json_real(x) : json_null();
}

static json_t *head_json(int layer, int head, const kv_attention *a) {
  json_t *x = json_pack("{s:i,s:i,s:I}", "layer", layer, "head", head, "rows",
                        (json_int_t)a->rows);
  json_object_set_new(x, "entropy", real(a->entropy, a->rows));
  json_object_set_new(x, "first", real(a->first, a->rows));
  json_object_set_new(x, "recent", real(a->recent, a->rows));
  json_object_set_new(x, "tokens", real(a->tokens, a->rows));
  json_object_set_new(x, "asked", json_integer(a->asked));
  json_object_set_new(x, "needle", real(a->needle, a->asked));
  json_object_set_new(x, "word", json_string(kv_attention_word(a)));
  return x;
}

json_t *kv_attention_json(const kv_trace *t, const kv_attention *a) {
  json_t *list = json_array();
  for (int i = 0; i < t->n_layers * t->shape.n_heads; i++) {
    int layer = i / t->shape.n_heads;
    json_array_append_new(list, head_json(t->layer[layer].data.layer,
                                          i % t->shape.n_heads, &a[i]));
  }
  return list;
}

static void cell(int width, const char *form, double x, long of) {
  char text[32] = "-";
  if (of) snprintf(text, sizeof text, form, x);
  printf("%*s", width, text);
}

static void row(int layer, const char *name, const kv_attention *a,
                const char *word) {
  printf("%5d %5s", layer, name);
  cell(9, "%.2f", a->entropy, a->rows);
  cell(7, "%.3f", a->first, a->rows);
  cell(8, "%.3f", a->recent, a->rows);
  cell(8, "%.1f%%", 100 * a->tokens, a->rows);
  cell(8, "%.3f", a->needle, a->asked);
  printf(*word ? "  %s\n" : "\n", word);
}

static kv_attention mean_of(int n, const kv_attention *a) {
  kv_attention m = {.rows = a->rows, .asked = a->asked};
  for (int h = 0; h < n; h++) {
    m.entropy += a[h].entropy / n;
    m.first += a[h].first / n;
    m.recent += a[h].recent / n;
    m.tokens += a[h].tokens / n;
    m.needle += a[h].needle / n;
  }
  return m;
}

void kv_attention_print(const kv_trace *t, const kv_attention *a) {
  int heads = t->shape.n_heads, sinks = 0;
  printf("\nlayer  head  entropy  first  recent  tokens  needle\n");
  for (int i = 0; i < t->n_layers; i++, a += heads) {
    int layer = t->layer[i].data.layer;
    kv_attention mean = mean_of(heads, a);
    for (int h = 0; h < heads; h++) {
      char name[16];
      snprintf(name, sizeof name, "%d", h);
      row(layer, name, &a[h], kv_attention_word(&a[h]));
    }
    row(layer, "mean", &mean, "");
    sinks += mean.rows && mean.first >= KV_ATTENTION_SINK;
  }
  printf("a sink (%.1f or more of the mass on token 0, mean of its heads) in "
         "%d of %d layers\n",
         KV_ATTENTION_SINK, sinks, t->n_layers);
}
