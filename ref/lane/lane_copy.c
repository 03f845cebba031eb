/* SPDX-License-Identifier: Apache-2.0
 *
 * A lane in the state of another: kv_lane_copy of ref/lane/lane.h. Of each
 * array only the part that is in use is read and written, so that a lane with
 * room for many tokens costs what its few entries take.
 */
#include "ref/ground/large.h"
#include "ref/lane/lane.h"
#include <string.h>

/* What lies where it will be full takes large pages at once, as far as it fills
 * them; the rest follows as it grows (ref/ground/large.h). */
static void copy_slab(const kv_slab *from, kv_slab *to) {
  size_t n = (size_t)from->used, bytes = n * from->size;
  if (n == 0) return;
  kv_large_at_once(to->data, bytes);
  memcpy(to->data, from->data, bytes);
  memcpy(to->free, from->free, (size_t)from->n_free * sizeof *to->free);
  memcpy(to->members, from->members, n * sizeof *to->members);
  memcpy(to->live, from->live, n * sizeof *to->live);
  if (from->walked) memcpy(to->walked, from->walked, n * sizeof *to->walked);
  to->used = from->used;
  to->n_free = from->n_free;
  to->held = from->held;
  to->bytes = from->bytes;
}

/* The method's state is zeroed room of which often only the first pages are in
 * use: pages of zeros are not written. */
static void copy_state(size_t n, const char *from, char *to) {
  enum { PAGE = 4096 };
  static const char zeros[PAGE];
  for (size_t at = 0; at < n; at += PAGE) {
    size_t m = n - at < PAGE ? n - at : PAGE;
    if (memcmp(from + at, zeros, m) != 0) memcpy(to + at, from + at, m);
  }
}

/* n elements of an array that both have, or neither. */
static void copy_array(size_t n, size_t size, const void *from, void *to) {
  if (from) memcpy(to, from, n * size);
}

static void copy_entries(const kv_lane *from, kv_lane *to) {
  size_t n = (size_t)from->n;
  copy_array(n, sizeof *to->id, from->id, to->id);
  copy_array(n, sizeof *to->weight, from->weight, to->weight);
  copy_array(n, sizeof *to->tier, from->tier, to->tier);
  copy_array(n, sizeof *to->k, from->k, to->k);
  copy_array(n, sizeof *to->v, from->v, to->v);
  copy_array(n, sizeof *to->last, from->last, to->last);
  /* by token, of all that have entered */
  copy_array((size_t)from->step, sizeof *to->next, from->next, to->next);
  for (int c = 0; c < from->needs->columns; c++)
    copy_array(n, (size_t)kv_column_size(from->needs->column[c]),
               from->column[c].i, to->column[c].i);
}

void kv_lane_copy(const kv_lane *from, kv_lane *to) {
  assert(from->marked == 0 && from->verbs.n == 0 && from->views.n == 0 &&
         "a lane is copied between two steps");
  assert(to->step == 0 && to->lane == from->lane && "into an empty one");
  to->n = from->n;
  copy_entries(from, to);
  for (int f = 0; f < KV_SLABS; f++) {
    copy_slab(&from->k_slab[f], &to->k_slab[f]);
    copy_slab(&from->v_slab[f], &to->v_slab[f]);
  }
  if (from->own) copy_state(from->needs->lane_state, from->own, to->own);
  to->first_marked = from->first_marked;
  to->tail = from->tail;
  to->dropped = from->dropped;
  to->holes = from->holes;
  to->rewritten = from->rewritten;
  to->step = from->step;
  to->touched = from->touched;
  to->rewrites = from->rewrites;
  to->fault = from->fault;
}
