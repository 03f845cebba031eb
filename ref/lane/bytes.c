/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk that counts a lane's bytes (ref/lane/ledger.h). What entries cost is
 * known without looking at them; what the entries of each class cost is not, so
 * lanes of methods with classes are walked entry by entry: O(n) a call.
 */
#include "ref/lane/lane.h"

#include <assert.h>

/* One side of all entries: what is raw by the entry, the rest as the verbs
 * counted it when blocks came and went. */
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

/* How many of what a meta is held for, with n live entries. */
static int64_t units(const kv_meta *m, int n) {
  switch (m->per) {
  case KV_PER_ENTRY:
    return n;
  case KV_PER_PAGE:
    return (n + m->page - 1) / m->page;
  default:
    return 1;
  }
}

/* Position, row index, weight and class of an entry. */
static int metadata_each(const kv_lane *l) {
  return (l->dropped ? 4 : 0) + (l->holes ? 4 : 0) +
         (l->needs->merges ? 4 : 0) + (l->needs->classes > 1 ? 1 : 0);
}

static int columns_each(const kv_needs *need) {
  int bytes = 0;
  for (int c = 0; c < need->columns; c++)
    bytes += need->column[c] == KV_INT64 ? 8 : 4;
  return bytes;
}

/* --- by class ------------------------------------------------------------- */

/* One side of an entry; a group's block with its first live member, whom it
 * marks. */
static int64_t side_bytes(const kv_lane *l, const kv_slab *slab,
                          const kv_cell_ref *r, int width) {
  if (!r || r->format == KV_RAW)
    return (int64_t)width * (int64_t)kv_dtype_size(l->shape->dtype);
  const kv_slab *s = &slab[r->format];
  if (s->walked && s->walked[r->block]) return 0;
  if (s->walked) s->walked[r->block] = true;
  kv_coded_size size = kv_slab_bytes(s, s->coding ? s->members[r->block] : 1);
  return (int64_t)(size.codes + size.metadata);
}

static void unmark(const kv_slab *slab, const kv_cell_ref *r) {
  const kv_slab *s = &slab[r->format];
  if (r->format != KV_RAW && s->walked) s->walked[r->block] = false;
}

static void walk_classes(const kv_lane *l, kv_bytes *sum) {
  int64_t each = metadata_each(l) + columns_each(l->needs);
  for (int i = 0; i < l->n; i++)
    *kv_bytes_of_tier(sum, l->tier[i]) +=
        each + side_bytes(l, l->k_slab, l->k ? &l->k[i] : NULL, l->shape->d) +
        side_bytes(l, l->v_slab, l->v ? &l->v[i] : NULL, l->shape->d_v);
  for (int i = 0; l->k && i < l->n; i++) {
    unmark(l->k_slab, &l->k[i]);
    unmark(l->v_slab, &l->v[i]);
  }
}

/* --- all of it ------------------------------------------------------------ */

void kv_lane_bytes(const kv_lane *l, kv_bytes *sum) {
  const kv_needs *need = l->needs;
  assert(l->marked == 0 && "bytes are counted between hooks");
  walk_side(l, l->k_slab, l->shape->d, sum);
  walk_side(l, l->v_slab, l->shape->d_v, sum);
  sum->metadata += (int64_t)l->n * metadata_each(l);
  sum->columns += (int64_t)l->n * columns_each(need);
  for (int i = 0; i < need->metas; i++)
    sum->side += (int64_t)need->meta[i].bytes * units(&need->meta[i], l->n);
  if (l->tier) walk_classes(l, sum);
}

int64_t kv_lane_scanned(const kv_lane *l) {
  const kv_needs *need = l->needs;
  kv_bytes keys = {0};
  for (int i = 0; i < need->metas; i++) {
    const kv_meta *m = &need->meta[i];
    if (l->data->layer >= m->from_layer && l->n > m->above)
      keys.side += (int64_t)m->scanned * units(m, l->n);
  }
  if (need->view_logits) walk_side(l, l->k_slab, l->shape->d, &keys);
  return kv_bytes_total(&keys);
}
