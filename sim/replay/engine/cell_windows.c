/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers with a sliding window: contract in sim/replay/engine/cell.h. In such a
 * layer engines keep what the next token can see, its last W - 1 tokens,
 * independently of other layers. So does a replay, unless windowed=compress:
 * these layers then run the method `window` with that budget in place of the
 * cell's method, with their own stores and plans. After a step's token has
 * entered they hold and see exactly the W tokens that the model's attention
 * sees. With windowed=compress they run the cell's method in the cell's stores,
 * and backends drop tokens that have left the window (kv_plan.slides).
 */
#include "sim/replay/engine/cell.h"

#include "ref/lane/needs.h"
#include "ref/methods/window.h"
#include <stdio.h>
#include <stdlib.h>

extern const kv_method kv_method_window, kv_method_dense;

static int count_windows(const kv_trace *t) {
  int n = 0;
  for (int i = 0; i < t->n_layers; i++) n += t->layer[i].data.window > 0;
  return n;
}

kv_rc kv_cell_find_windows(kv_cell *c, kv_err *e) {
  const kv_trace *t = c->trace;
  size_t n = (size_t)t->n_layers;
  if (count_windows(t) == 0) {
    c->spec.windowed = KV_WINDOWED_LEAVE;
    return KV_OK;
  }
  c->window = kv_zalloc(n, sizeof *c->window);
  if (!c->window) return kv_no_memory(e, "windows", n * sizeof *c->window);
  for (int i = 0; i < t->n_layers; i++) c->window[i] = t->layer[i].data.window;
  return KV_OK;
}

bool kv_cell_shares(const kv_cell *c, const kv_budget *b) {
  return kv_cell_slides(c) &&
         (b->basis == KV_BASIS_PROMPT || b->basis == KV_BASIS_RATIO);
}

static int sees(const kv_cell *c, int index) {
  int p = c->shape.prompt_len, w = c->trace->layer[index].data.window;
  return kv_cell_slides(c) && w && w < p ? w : p;
}

int kv_cell_share_of(const kv_cell *c, int layer) {
  for (int i = 0; i < c->trace->n_layers; i++)
    if (c->trace->layer[i].data.layer == layer) return sees(c, i);
  return c->shape.prompt_len;
}

double kv_cell_mean_share(const kv_cell *c) {
  int64_t sum = 0;
  if (!kv_cell_slides(c)) return c->shape.prompt_len;
  for (int i = 0; i < c->trace->n_layers; i++) sum += sees(c, i);
  return (double)sum / c->trace->n_layers;
}

/* Does each method's state hold all the rows that move with entries? */
static bool rows_fit(const kv_cell *c) {
  kv_method_part part[KV_MOST_PARTS];
  int n = kv_parts_opened(c->spec.method, c->plan.params, &c->plan.needs, part);
  size_t row = (size_t)c->shape.n_tokens * sizeof(int64_t);
  bool fit = true;
  for (int i = 0; i < n; i++)
    fit &= (size_t)part[i].needs->slid <= part[i].needs->lane_state / row;
  return fit;
}

/* Why only the method's own verbs can remove entries; NULL: others can, too. */
static const char *cannot_slide(const kv_cell *c) {
  const kv_needs *n = &c->plan.needs;
  if (n->across != KV_ALONE)
    return "lets layers read what others choose, most of which a window hides";
  if (n->merges)
    return "merges entries, and a merged entry cannot leave a window when one "
           "of its tokens does";
  if (n->reindex)
    return "gives entries new positions, which would change with every token "
           "that leaves";
  if (n->rope && c->trace->windowed_inv_freq)
    return "rotates keys and queries back, but cannot use this trace's "
           "rope.inv_freq.windowed";
  if (!n->slides)
    return "indexes its state by entry, and the index changes with every token "
           "that leaves";
  if (!rows_fit(c))
    return "moves more rows with entries (needs.slid) than its state "
           "(needs.lane_state) holds";
  return NULL;
}

/* Refuses files that lack a tensor of a layer with a window. Without
 * windowed=compress no method runs there, and they need no tensor. */
static void need_tensors(kv_cell *c, const kv_asset *a) {
  char text[KV_TEXT_MAX + 160];
  for (int l = 0; a && l < a->layers; l++)
    for (int i = 0; i < a->asked; i++) {
      if (!c->window[l] || !a->ask[i].unwindowed) continue;
      if (a->tensor[l * a->asked + i].data) continue;
      snprintf(text, sizeof text,
               "%s: tensor %s is missing for layer %d, which has a sliding "
               "window; write it, too, or use windowed=leave",
               a->path, a->ask[i].name, a->layer[l]);
      kv_cell_refuse(c, text);
      return;
    }
}

static void open_slides(kv_cell *c) {
  char text[256];
  const char *why = c->runs ? cannot_slide(c) : NULL;
  for (int i = 0; c->runs && i < KV_SPEC_FILES; i++)
    need_tensors(c, c->file[i]);
  c->plan.slides = true;
  c->plan.needs.lengths = false; /* what leaves depends on what was kept */
  if (!why) return;
  snprintf(text, sizeof text,
           "%s cannot run within a sliding window: it %s; use windowed=leave",
           c->spec.method->name, why);
  kv_cell_refuse(c, text);
}

/* Makes the plan of a layer with window w; a layer without one never uses it.
 */
static kv_rc open_layer(kv_cell *c, int l, int w, kv_err *e) {
  params *p = (params *)(void *)(c->left_params + (size_t)l * sizeof(params));
  kv_plan *plan = &c->left_layer[l];
  kv_needs needs = {0};
  *p = (params){.budget = w > 1 ? w - 1 : 1, .variant = DROP};
  kv_rc rc = kv_method_window.open(&c->shape, p, &needs, e);
  needs.block = c->plan.needs.block; /* the prompt enters as on other layers */
  if (!rc) rc = kv_needs_check(&needs, e);
  *plan = (kv_plan){.shape = c->plan.shape,
                    .rope = c->plan.rope,
                    .kernels = c->plan.kernels,
                    .method = &kv_method_window,
                    .params = p,
                    .needs = needs};
  return rc;
}

static kv_rc open_layers(kv_cell *c, kv_err *e) {
  size_t n = (size_t)c->shape.n_layers;
  const kv_trace *t = c->trace;
  kv_rc rc = KV_OK;
  c->left_layer = kv_zalloc(n, sizeof *c->left_layer);
  c->left_params = kv_zalloc(n, sizeof(params));
  if (!c->left_layer || !c->left_params)
    return kv_no_memory(e, "windows", n * sizeof *c->left_layer);
  for (size_t l = 0; !rc && l < n; l++) rc = open_layer(c, (int)l, 0, e);
  for (int i = 0; !rc && i < t->n_layers; i++)
    if (c->window[i])
      rc = open_layer(c, t->layer[i].data.layer, c->window[i], e);
  c->left = c->left_layer[0];
  c->left.layer = c->left_layer;
  return rc;
}

kv_rc kv_cell_open_windows(kv_cell *c, kv_err *e) {
  if (!c->window) return KV_OK;
  if (kv_cell_slides(c)) {
    open_slides(c);
    return KV_OK;
  }
  int n = count_windows(c->trace);
  if (c->runs && n == c->trace->n_layers && c->spec.method != &kv_method_dense)
    kv_cell_refuse(
        c, "every recorded layer has a sliding window, which the method leaves "
           "alone, so it has no layer to compress; use windowed=compress, "
           "record layers without a window, or run dense");
  if (c->runs && c->plan.needs.lanes == QUERY_HEAD)
    kv_cell_refuse(c, "the method keeps tokens for each query head, but layers "
                      "with a sliding window keep them for each KV head; use a "
                      "method or group= that keeps them for KV heads");
  return open_layers(c, e);
}
