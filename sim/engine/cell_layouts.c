/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory layouts of a cell, and cells that are refused: sim/engine/cell.h.
 */
#include "sim/engine/cell.h"
#include <stdio.h>
#include <string.h>

void kv_cell_refuse(kv_cell *c, const char *why) {
  c->result.status = KV_CELL_REFUSED;
  c->runs = false;
  snprintf(c->result.reason, sizeof c->result.reason, "%s", why);
}

/* Rows that a layout has no place for: this cell is refused. */
static void suit(kv_cell *c, const kv_layout_list *asked) {
  for (int i = 0; i < asked->n && c->runs; i++) {
    const kv_layout_asked *a = &asked->item[i];
    const kv_layout *l = a->layout;
    kv_err why = {0};
    c->plan.paged |= l->paged;
    if (!c->plan.indices) c->plan.indices = kv_layout_indices(a);
    if (!l->suits || !l->suits(a, &c->shape, &c->plan.needs, &why)) continue;
    kv_cell_refuse(c, why.text);
    c->result.of_layout = true;
  }
}

kv_rc kv_cell_lay_out(kv_cell *c, const kv_layout_list *asked, kv_err *e) {
  kv_result *r = &c->result;
  if (!asked || !asked->n) return KV_OK;
  if (c->shape.shared && c->runs) {
    kv_cell_refuse(c, "layouts keep K and V apart, and the trace's V is a part "
                      "of its K (kv.shared); leave --layout out");
    c->result.of_layout = true;
  }
  suit(c, asked);
  r->layout = kv_zalloc((size_t)asked->n, sizeof *r->layout);
  if (!r->layout) return kv_no_memory(e, "layouts", (size_t)asked->n);
  r->n_layouts = asked->n;
  for (int i = 0; i < asked->n; i++)
    memcpy(r->layout[i].name, asked->item[i].name, sizeof r->layout[i].name);
  c->lay_out = asked;
  return KV_OK;
}
