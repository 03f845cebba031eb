/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing and reading parts: contract in sim/engine/partial.h. A part is a
 * header, then the ledger, then the values.
 */
#include "sim/engine/partial.h"

#include <string.h>

enum { FORMAT = 2 };

/* What the reading cell must have in common with the writing one. */
typedef struct made_for {
  int64_t format, layer, measures, heads, steps, blocks, top, scores, layouts,
      size;
} made_for;

typedef struct head {
  made_for made_for;
  kv_layer_digests digest;
  double seconds;
  kv_err fault;
} head;

static size_t values_size(const kv_cell *c) {
  return c->fidelity ? kv_fidelity_layer_size(c->fidelity) : 0;
}

static size_t layouts_size(const kv_cell *c) {
  return c->layouts ? kv_layouts_layer_size(c->layouts) : 0;
}

size_t kv_partial_size(const kv_cell *c) {
  return sizeof(head) + kv_cost_layer_size(c->cost) + layouts_size(c) +
         values_size(c);
}

static made_for made_of(const kv_cell *c, int layer) {
  return (made_for){.format = FORMAT,
                    .layer = layer,
                    .measures = KV_MEASURES,
                    .heads = c->shape.n_heads,
                    .steps = c->shape.n_tokens - c->shape.prompt_len,
                    .blocks = c->blocks,
                    .top = kv_cell_entries(c, layer),
                    .scores = c->plan.scores,
                    .layouts = c->layouts ? kv_layouts_name(c->layouts) : 0,
                    .size = (int64_t)kv_partial_size(c)};
}

void kv_partial_write(const kv_cell *c, int layer, void *out) {
  head h;
  char *to = out;
  memset(&h, 0, sizeof h); /* padding too: equal parts are equal bytes */
  h.made_for = made_of(c, layer);
  h.digest = c->digest[layer];
  h.seconds = c->seconds[layer];
  h.fault.rc = c->fault[layer].rc;
  memcpy(h.fault.text, c->fault[layer].text, sizeof h.fault.text);
  memcpy(to, &h, sizeof h);
  to += sizeof h;
  kv_cost_layer_write(c->cost, layer, to);
  to += kv_cost_layer_size(c->cost);
  if (c->layouts) kv_layouts_layer_write(c->layouts, layer, to);
  to += layouts_size(c);
  if (c->fidelity) kv_fidelity_layer_write(c->fidelity, layer, to);
}

bool kv_partial_read(kv_cell *c, int layer, size_t size, const void *from) {
  head h;
  made_for want = made_of(c, layer);
  const char *at = from;
  if (size != kv_partial_size(c)) return false;
  memcpy(&h, at, sizeof h);
  if (memcmp(&h.made_for, &want, sizeof want)) return false;
  at += sizeof h;
  c->digest[layer] = h.digest;
  c->seconds[layer] = h.seconds;
  kv_cost_layer_read(c->cost, layer, at);
  at += kv_cost_layer_size(c->cost);
  if (c->layouts) kv_layouts_layer_read(c->layouts, layer, at);
  at += layouts_size(c);
  if (c->fidelity) kv_fidelity_layer_read(c->fidelity, layer, at);
  if (h.fault.rc) kv_cell_fail(c, layer, &h.fault);
  return true;
}
