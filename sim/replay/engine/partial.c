/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing and reading parts: contract in sim/replay/engine/cell.h. A part is
 * a header, then the ledger, layouts, and values of fidelity.
 */
#include "sim/replay/engine/cell.h"

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

/* Copies all that follows the header. */
static void copy(const kv_cell *c, int layer, kv_copier *x) {
  kv_cost_layer_copy(c->cost, layer, x);
  if (c->layouts) kv_layouts_layer_copy(c->layouts, layer, x);
  if (c->fidelity) kv_fidelity_layer_copy(c->fidelity, layer, x);
}

size_t kv_partial_size(const kv_cell *c) {
  kv_copier x = {.size = sizeof(head)};
  copy(c, 0, &x);
  return x.size;
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
  kv_copier x = {.out = out};
  head h;
  memset(&h, 0, sizeof h); /* padding too: equal parts have equal bytes */
  h.made_for = made_of(c, layer);
  h.digest = c->digest[layer];
  h.seconds = c->seconds[layer];
  h.fault.rc = c->fault[layer].rc;
  memcpy(h.fault.text, c->fault[layer].text, sizeof h.fault.text);
  kv_copy(&x, &h, sizeof h);
  copy(c, layer, &x);
}

bool kv_partial_read(kv_cell *c, int layer, size_t size, const void *from) {
  kv_copier x = {.from = from};
  head h;
  made_for want = made_of(c, layer);
  if (size != kv_partial_size(c)) return false;
  kv_copy(&x, &h, sizeof h);
  if (memcmp(&h.made_for, &want, sizeof want)) return false;
  c->digest[layer] = h.digest;
  c->seconds[layer] = h.seconds;
  copy(c, layer, &x);
  if (h.fault.rc) kv_cell_fail(c, layer, &h.fault);
  return true;
}
