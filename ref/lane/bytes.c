/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts a lane's bytes (ref/lane/ledger.h). Totals follow from the lane's
 * counters, but bytes by class do not: lanes with classes are walked entry by
 * entry, O(n) a call.
 */
#include "ref/lane/lane.h"

#include <assert.h>

/* One side of all entries: raw rows by entry, blocks as the verbs counted
 * them. */
static void walk_side(const kv_lane *l, const kv_slab *slab, int width,
                      kv_bytes *sum) {
  int64_t raws = l->n;
  for (int f = KV_MERGED; f < KV_CODED + l->needs->codings; f++) {
    raws -= slab[f].held;
    sum->payload += (int64_t)slab[f].bytes.codes;
    sum->metadata += (int64_t)slab[f].bytes.metadata;
  }
  sum->payload += raws * width * (int64_t)kv_dtype_size(l->shape->dtype);
}

int64_t kv_lane_shared(const kv_lane *l, int format) {
  if (!l->shape->shared || format >= KV_CODED) return 0;
  if (format == KV_MERGED)
    return (int64_t)kv_slab_bytes(&l->v_slab[KV_MERGED], 1).codes;
  return l->shape->d_v * (int64_t)kv_dtype_size(l->shape->dtype);
}

int64_t kv_lane_shared_entry(const kv_lane *l, int i) {
  int k = l->k ? l->k[i].format : KV_RAW, v = l->k ? l->v[i].format : KV_RAW;
  return k == v ? kv_lane_shared(l, k) : 0;
}

/* kv_lane_shared_entry, summed over all entries. */
static int64_t shared_bytes(const kv_lane *l) {
  int64_t sum = 0;
  if (!l->shape->shared) return 0;
  if (!l->rewritten) return l->n * kv_lane_shared(l, KV_RAW);
  for (int i = 0; i < l->n; i++) sum += kv_lane_shared_entry(l, i);
  return sum;
}

/* How many units of a meta the lane's live entries need. */
static int64_t units(const kv_meta *m, const kv_lane *l) {
  switch (m->per) {
  case KV_PER_ENTRY:
    return l->n;
  case KV_PER_PAGE:
    return (l->n + m->page - 1) / m->page;
  case KV_PER_LAYER:
    return l->lane == 0;
  default:
    return 1;
  }
}

static int64_t meta_bytes(const kv_meta *m, const kv_lane *l) {
  size_t each = m->bytes;
  if (m->in_layer) each = m->in_layer[kv_by_layer_at(l->data->layer)];
  return (int64_t)each * units(m, l);
}

/* How many of these units a decode step reads. */
static int64_t scanned_units(const kv_meta *m, const kv_lane *l) {
  int64_t all = units(m, l);
  return m->most && all > m->most ? m->most : all;
}

bool kv_lane_is_run(const kv_lane *l) {
  int n = l->n, i = 0;
  if (n == 0 || l->id[n - 1] - l->id[0] != (uint32_t)n - 1) return false;
  while (i < n && l->id[i] - l->id[0] == (uint32_t)i) i++;
  return i == n;
}

/* Is the lane one run of tokens under a sliding window? A store then keeps it
 * in a ring, where the number of tokens seen gives the token of each row. */
static bool run_of_window(const kv_lane *l) {
  return l->data->window && kv_lane_is_run(l);
}

/* Position, row index, weight and class of an entry. */
static int metadata_each(const kv_lane *l) {
  int places = (l->dropped ? 4 : 0) + (l->holes ? 4 : 0);
  return (places && run_of_window(l) ? 0 : places) +
         (l->needs->merges ? 4 : 0) +
         (l->needs->classes > 1 && !l->needs->unread ? 1 : 0);
}

static int columns_each(const kv_needs *need) {
  int bytes = 0;
  for (int c = 0; c < need->columns; c++)
    bytes += kv_column_size(need->column[c]);
  return bytes;
}

/* One side. `each` has the bytes of an entry by its format. A block of a group
 * is counted with its first live member, and marked. */
typedef struct side {
  const kv_slab *slab;
  const kv_cell_ref *ref; /* [n]; NULL: all are raw */
  int64_t each[KV_SLABS];
  bool groups;
} side;

static void price(const kv_lane *l, const kv_slab *slab, const kv_cell_ref *ref,
                  int width, side *s) {
  *s = (side){.slab = slab, .ref = ref};
  s->each[KV_RAW] = (int64_t)width * (int64_t)kv_dtype_size(l->shape->dtype);
  for (int f = KV_MERGED; f < KV_CODED + l->needs->codings; f++) {
    kv_coded_size size = kv_slab_bytes(&slab[f], 1);
    s->each[f] = (int64_t)(size.codes + size.metadata);
    s->groups |= slab[f].walked != NULL;
  }
}

static int64_t group_bytes(const side *s, const kv_cell_ref *r) {
  const kv_slab *of = &s->slab[r->format];
  if (!of->walked) return s->each[r->format];
  if (of->walked[r->block]) return 0;
  of->walked[r->block] = true;
  kv_coded_size size =
      kv_slab_bytes(of, of->coding ? of->members[r->block] : 1);
  return (int64_t)(size.codes + size.metadata);
}

static inline int64_t side_bytes(const side *s, int i) {
  if (!s->ref) return s->each[KV_RAW];
  return s->groups ? group_bytes(s, &s->ref[i]) : s->each[s->ref[i].format];
}

static void unmark(const side *s, int n) {
  for (int i = 0; s->groups && i < n; i++) {
    const kv_slab *of = &s->slab[s->ref[i].format];
    if (of->walked) of->walked[s->ref[i].block] = false;
  }
}

/* The sum of class 0, the most common one, stays in a register: lanes are
 * walked at every token if a method takes the prompt token by token. */
static void walk_classes(const kv_lane *l, kv_bytes *sum) {
  int64_t each = metadata_each(l) + columns_each(l->needs), of_0 = 0;
  const bool shared = l->shape->shared;
  side k, v;
  price(l, l->k_slab, l->k, l->shape->d, &k);
  price(l, l->v_slab, l->v, l->shape->d_v, &v);
  for (int i = 0; i < l->n; i++) {
    int64_t bytes = each + side_bytes(&k, i) + side_bytes(&v, i);
    if (shared) bytes -= kv_lane_shared_entry(l, i);
    if (l->tier[i])
      *kv_bytes_of_tier(sum, l->tier[i]) += bytes;
    else
      of_0 += bytes;
  }
  sum->tier_0 += of_0;
  unmark(&k, l->n);
  unmark(&v, l->n);
}

void kv_lane_bytes(const kv_lane *l, kv_bytes *sum) {
  const kv_needs *need = l->needs;
  assert(l->marked == 0 && "bytes are counted between hooks");
  walk_side(l, l->k_slab, l->shape->d, sum);
  walk_side(l, l->v_slab, l->shape->d_v, sum);
  sum->payload -= shared_bytes(l);
  sum->metadata += (int64_t)l->n * metadata_each(l);
  sum->columns += (int64_t)l->n * columns_each(need);
  for (int i = 0; i < need->metas; i++)
    sum->side += meta_bytes(&need->meta[i], l);
  if (l->tier) walk_classes(l, sum);
}

int64_t kv_lane_row_bytes(const kv_lane *l) {
  kv_bytes rows = {0};
  walk_side(l, l->k_slab, l->shape->d, &rows);
  walk_side(l, l->v_slab, l->shape->d_v, &rows);
  return rows.payload + rows.metadata - shared_bytes(l);
}

int64_t kv_lane_scanned(const kv_lane *l) {
  const kv_needs *need = l->needs;
  kv_bytes keys = {0};
  for (int i = 0; i < need->metas; i++) {
    const kv_meta *m = &need->meta[i];
    if (l->data->layer >= m->from_layer && l->n > m->above)
      keys.side += (int64_t)m->scanned * scanned_units(m, l);
  }
  if (need->view_logits) walk_side(l, l->k_slab, l->shape->d, &keys);
  return kv_bytes_total(&keys);
}
