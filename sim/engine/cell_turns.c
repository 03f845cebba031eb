/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of closings of a cell, where questions enter as prompts after
 * decoding began: sim/engine/cell.h.
 */
#include "sim/engine/cell.h"

int kv_cell_prompt_at(const kv_cell *c, int step) {
  int end = c->shape.prompt_len, chunk = c->shape.chunk;
  if (chunk && step < end) {
    int last = kv_chunk_first(&c->shape, step) + chunk;
    return last < end ? last : end;
  }
  for (int i = 0; i < c->turns && c->turn[i].first < step; i++)
    end = c->turn[i].first + c->turn[i].count;
  return end;
}

const kv_asking *kv_cell_asks(const kv_cell *c, int t) {
  for (int i = 0; i < c->turns; i++)
    if (c->turn[i].first == t) return &c->turn[i];
  return NULL;
}

bool kv_cell_closing(const kv_cell *c, int n, int *first, int *count,
                     bool *decodes) {
  int size = kv_cell_block(c), p = c->shape.prompt_len;
  int from = n < c->blocks ? 0 : p, t = p + n - c->blocks, to = t + 1;
  *decodes = n >= c->blocks;
  if (!*decodes) {
    *first = n * size;
    *count = size && *first + size < p ? size : p - *first;
    return true;
  }
  *first = t;
  *count = 1;
  for (int i = 0; i < c->turns; i++) {
    const kv_asking *q = &c->turn[i];
    if (t < q->first || t >= q->first + q->count) continue;
    *decodes = false;
    from = q->first;
    int past = (to - from) % (size ? size : q->count);
    if (past && to < from + q->count) return false;
    *count = past ? past : size && size < q->count ? size : q->count;
    *first = to - *count;
  }
  return true;
}
