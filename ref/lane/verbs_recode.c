/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs that code: kv_recode, of one lane, and kv_recode_token, of a token
 * in all lanes of a layer.
 */
#include "ref/lane/verbs_part.h"
#include <assert.h>
#include <string.h>

static void recode_side(kv_lane *l, int n, const int32_t *entry, int format,
                        bool key) {
  const kv_coding *c = &l->needs->coding[format - KV_CODED];
  kv_slab *slab = key ? l->k_slab : l->v_slab;
  kv_cell_ref *ref = key ? l->k : l->v;
  int width = key ? l->shape->d : l->shape->d_v;
  for (int i = 0; i < n; i++) {
    float *row = l->f32 + (size_t)i * (size_t)width;
    if (key)
      kv_lane_key(l, entry[i], row);
    else
      kv_lane_value(l, entry[i], row);
    if (key && c->pre_rope) kv_turn_back(l->turns, l->id[entry[i]], row);
    l->rows[i] = row;
  }
  assert(slab[format].cap > 0 && "needs.coding is for this side");
  int b = kv_verb_take(&slab[format], n);
  void *out = slab[format].data + (size_t)b * slab[format].size;
  if (!c->format->encode(c->settings, n, width, l->rows, out) && !l->fault.rc)
    kv_fail(&l->fault, KV_REFUSED,
            "layer %d, lane %d, step %d: the scale of a coded group is not "
            "finite as stored (first token %u); these values cannot be coded",
            l->data->layer, l->lane, l->step, l->id[entry[0]]);
  for (int i = 0; i < n; i++) {
    kv_verb_leave(slab, &ref[entry[i]]);
    ref[entry[i]] = (kv_cell_ref){b, (uint16_t)i, (uint16_t)format};
  }
}

void kv_recode(kv_lane *l, int n, const int32_t *entry, int k_format,
               int v_format) {
  uint32_t *w = n ? kv_verb_record(l, KV_RECODE, (size_t)n + 2) : NULL;
  if (!w) return;
  w[0] = (uint32_t)k_format;
  w[1] = (uint32_t)v_format;
  for (int i = 0; i < n; i++) {
    assert(kv_is_live(l, entry[i]) && "recode names live entries");
    w[2 + i] = l->id[entry[i]];
    kv_verb_touch(l, entry[i]);
    l->rewritten += !kv_verb_is_rewritten(l, entry[i]);
  }
  if (k_format != KV_SAME) recode_side(l, n, entry, k_format, true);
  if (v_format != KV_SAME) recode_side(l, n, entry, v_format, false);
  for (int i = 0; i < n; i++) kv_verb_note(l, entry[i]);
}

/* --- a token of the layer ------------------------------------------------ */

/* What a layered block is in a slab: the fp32 row; of K, the ids that it names;
 * then this side's part of the bytes. */
static size_t begin_of(size_t bytes, const kv_slab *s, int part) {
  return kv_part_begin(bytes, part, s->parts);
}

static char *part_at(const kv_slab *s, int block) {
  size_t named = s->part % 2 ? 0 : (size_t)kv_slab_named(s);
  return s->data + (size_t)block * s->size + (size_t)s->width * sizeof(float) +
         named * sizeof(int32_t);
}

static void put_side(kv_lane *l, int i, int format, bool key,
                     const int32_t *named, const char *bytes,
                     const float *row) {
  kv_slab *slab = key ? l->k_slab : l->v_slab, *s = &slab[format];
  kv_cell_ref *ref = key ? &l->k[i] : &l->v[i];
  size_t all = s->coding->format->layered->bytes(s->coding->settings);
  size_t from = begin_of(all, s, s->part);
  int block = kv_verb_take(s, 1);
  char *to = s->data + (size_t)block * s->size;
  memcpy(to, row, (size_t)s->width * sizeof *row);
  if (key)
    memcpy(to + (size_t)s->width * sizeof *row, named,
           (size_t)kv_slab_named(s) * sizeof *named);
  memcpy(part_at(s, block), bytes + from, begin_of(all, s, s->part + 1) - from);
  kv_verb_leave(slab, ref);
  *ref = (kv_cell_ref){block, 0, (uint16_t)format};
}

static void put_token(kv_lane *l, int i, int format, const int32_t *named,
                      const void *block, const float *k, const float *v) {
  uint32_t *w = kv_verb_record(l, KV_RECODE, 3);
  if (!w) return;
  w[0] = w[1] = (uint32_t)format;
  w[2] = l->id[i];
  kv_verb_touch(l, i);
  l->rewritten += !kv_verb_is_rewritten(l, i);
  put_side(l, i, format, true, named, block, k);
  put_side(l, i, format, false, named, block, v);
  kv_verb_note(l, i);
}

void kv_recode_token(kv_lane *const *lane, int lanes, int entry, int format,
                     const int32_t *named, const void *block,
                     const float *row) {
  const kv_shape *s = lane[0]->shape;
  const float *v = row + (size_t)lanes * (size_t)s->d;
  assert(lane[0]->needs->coding[format - KV_CODED].format->layered &&
         "a layered coding");
  for (int g = 0; g < lanes; g++) {
    assert(kv_is_live(lane[g], entry) &&
           lane[g]->id[entry] == lane[0]->id[entry] &&
           "the same token in all lanes");
    put_token(lane[g], entry, format, named, block,
              row + (size_t)g * (size_t)s->d, v + (size_t)g * (size_t)s->d_v);
  }
}

const int32_t *kv_lane_named(const kv_lane *l, int i) {
  const kv_slab *s = &l->k_slab[l->k[i].format];
  const char *block = s->data + (size_t)l->k[i].block * s->size;
  return (const int32_t *)(const void *)(block +
                                         (size_t)s->width * sizeof(float));
}

void kv_lanes_block(const kv_lane *const *lane, int lanes, int i, void *out) {
  for (int g = 0; g < lanes; g++)
    for (int side = 0; side < 2; side++) {
      const kv_cell_ref *r = side ? &lane[g]->v[i] : &lane[g]->k[i];
      const kv_slab *s =
          side ? &lane[g]->v_slab[r->format] : &lane[g]->k_slab[r->format];
      size_t all = s->coding->format->layered->bytes(s->coding->settings);
      size_t from = begin_of(all, s, s->part);
      memcpy((char *)out + from, part_at(s, r->block),
             begin_of(all, s, s->part + 1) - from);
    }
}
