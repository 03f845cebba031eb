/* SPDX-License-Identifier: Apache-2.0
 *
 * What a cell must have so that its prompt is read in chunks:
 * sim/engine/cell.h.
 */
#include "sim/engine/cell.h"

#include <stdio.h>

/* Has the index-th layer recorded the queries of all rows of later chunks, and
 * those of the first that the method is shown? */
static bool has_rows(const kv_cell *c, int index) {
  const kv_layer_data *data = &c->trace->layer[index].data;
  int shown = kv_cell_plan(c, index)->needs.prompt_rows;
  int first = c->shape.chunk, p = c->shape.prompt_len, have = 0;
  if (first < p) first = first > shown ? first - shown : 0;
  for (int r = 0; data->rows && r < data->n_rows; r++)
    have += data->rows[r] >= first && data->rows[r] < p;
  return !data->rows || have >= p - first;
}

/* Why the cell cannot, a sentence without its subject; NULL: it can. */
static const char *cannot(const kv_cell *c) {
  if (!c->plan.needs.chunks)
    return "does not read a prompt in chunks yet (needs.chunks); leave prefill "
           "out";
  if (c->window)
    return "reads no prompt in chunks where layers have a sliding window; "
           "leave prefill out";
  if (c->turns)
    return "reads later questions as prompts of their own, which are not cut "
           "into chunks; leave prefill or --turns out";
  for (int i = 0; i < c->trace->n_layers; i++)
    if (!has_rows(c, i))
      return "reads its prompt in chunks whose queries the trace does not "
             "record, all rows of the prompt; record it with them";
  return NULL;
}

void kv_cell_check_chunks(kv_cell *c) {
  char why[256];
  const char *says = c->shape.chunk ? cannot(c) : NULL;
  if (!says) return;
  snprintf(why, sizeof why, "%s %s", c->spec.method->name, says);
  kv_cell_refuse(c, why);
}
