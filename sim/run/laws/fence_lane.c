/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks memory that a hook has no reason to write: after a lane's state, and
 * after its entries in the arrays with a number for each entry.
 */
#include "sim/run/laws/fence_part.h"

#include <string.h>

enum { MARK = 0xa5 };

void kv_fence_mark(void *at, size_t n) { memset(at, MARK, n); }

size_t kv_fence_marked(const void *at, size_t n) {
  static const unsigned char whole[256] = {[0 ... 255] = MARK};
  const unsigned char *c = at;
  size_t i = 0;
  while (i + sizeof whole <= n && !memcmp(c + i, whole, sizeof whole))
    i += sizeof whole;
  while (i < n && c[i] == MARK) i++;
  return i;
}

static bool is_marked(const void *at, size_t n) {
  return kv_fence_marked(at, n) == n;
}

static size_t state_of(const kv_needs *n) { return n->lane_state - KV_FENCE; }

/* The unused end of an array with `size` bytes an entry. */
typedef struct spare {
  const char *name;
  void *base;
  size_t size;
} spare;

enum { SPARES = 3 + KV_MAX_COLUMNS };

static int spares_of(const kv_lane *l, spare out[SPARES]) {
  int n = 0;
  out[n++] = (spare){"id", l->id, sizeof *l->id};
  out[n++] = (spare){"weight", l->weight, sizeof *l->weight};
  if (l->tier) out[n++] = (spare){"class", l->tier, sizeof *l->tier};
  for (int c = 0; c < l->needs->columns; c++)
    out[n++] = (spare){"a column", l->column[c].i,
                       l->needs->column[c] == KV_INT64 ? 8 : 4};
  return n;
}

static size_t bytes_of(const kv_lane *l, const spare *s, int n) {
  return (size_t)(l->shape->n_tokens + KV_BEYOND - n) * s->size;
}

void kv_fence_fill(kv_lane *l) {
  spare all[SPARES];
  int count = spares_of(l, all);
  kv_fence_mark((char *)l->own + state_of(l->needs), KV_FENCE);
  for (int i = 0; i < count; i++)
    kv_fence_mark((char *)all[i].base + (size_t)l->n * all[i].size,
                  bytes_of(l, &all[i], l->n));
}

void kv_fence_beyond(const kv_lane *l, int n) {
  spare all[SPARES];
  int count = spares_of(l, all);
  if (!is_marked((char *)l->own + state_of(l->needs), KV_FENCE))
    kv_fence_found("hooks", "writes outside the lane_state that it declared");
  for (int i = 0; i < count; i++)
    if (!is_marked((char *)all[i].base + (size_t)n * all[i].size,
                   bytes_of(l, &all[i], n)))
      kv_fence_found("hooks", "writes %s beyond the lane's entries",
                     all[i].name);
}
