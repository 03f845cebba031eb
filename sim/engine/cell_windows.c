/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers with a sliding window: contract in sim/engine/cell.h. Engines keep of
 * such a layer what the next token can see, its last W - 1 tokens, whatever is
 * done to other layers; so does a replay. These layers run the method `window`
 * with that budget in place of the cell's method, with stores and plans of
 * their own: after the token of a step has entered they hold and see exactly
 * the W tokens that the model's own attention does.
 */
#include "sim/engine/cell.h"

#include "ref/lane/needs.h"
#include "ref/methods/window.h"
#include <stdlib.h>

extern const kv_method kv_method_window, kv_method_dense;

int64_t kv_cell_dense(const kv_cell *c, int first, int last, bool attended) {
  return kv_dense_tokens(c->trace->n_layers, c->window, first, last, attended) *
         c->shape.n_kv_heads * kv_token_bytes(&c->shape);
}

/* Fills c->window where a layer has one; returns how many have. */
static int list_windows(kv_cell *c, kv_err *e) {
  const kv_trace *t = c->trace;
  int n = 0;
  for (int i = 0; i < t->n_layers; i++) n += t->layer[i].data.window > 0;
  if (n == 0) return 0;
  c->window = kv_zalloc((size_t)t->n_layers, sizeof *c->window);
  if (!c->window) {
    kv_no_memory(e, "windows", (size_t)t->n_layers * sizeof *c->window);
    return -1;
  }
  for (int i = 0; i < t->n_layers; i++) c->window[i] = t->layer[i].data.window;
  return n;
}

/* The plan of a layer with window w; of a layer without one it is never used.
 */
static kv_rc open_layer(kv_cell *c, int l, int w, kv_err *e) {
  params *p = (params *)(void *)(c->left_params + (size_t)l * sizeof(params));
  kv_plan *plan = &c->left_layer[l];
  kv_needs needs = {0};
  *p = (params){.budget = w > 1 ? w - 1 : 1, .variant = DROP};
  kv_rc rc = kv_method_window.open(&c->shape, p, &needs, e);
  needs.block = c->plan.needs.block; /* a prompt closes as on other layers */
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
  int n = list_windows(c, e);
  if (n < 0) return KV_RESOURCE;
  if (n == 0) return KV_OK;
  if (c->runs && n == c->trace->n_layers && c->spec.method != &kv_method_dense)
    kv_cell_refuse(c, "every recorded layer has a sliding window and is left "
                      "to it, so no layer is left for the method; record "
                      "layers without one, or run dense");
  if (c->runs && c->plan.needs.lanes == QUERY_HEAD)
    kv_cell_refuse(c, "tokens are kept for each query head, and layers with a "
                      "sliding window keep them for each KV head; take a "
                      "method, or group=, that keeps them for KV heads");
  return open_layers(c, e);
}
