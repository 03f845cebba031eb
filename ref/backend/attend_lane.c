/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and values of a lane as attention reads them: raw rows straight from
 * the trace, rewritten rows from their blocks, re-indexed keys rotated when
 * read and never stored.
 */
#include "ref/backend/attend.h"
#include "ref/ground/places.h"

#include <string.h>

void kv_lane_query(const kv_lane *l, int i, kv_attend_scratch *x, float *q) {
  if (l->needs->reindex) kv_place_row(l->places, l->id[i], i, x->room, q);
}

static bool raw_key(const kv_lane *l, int i) {
  return !l->needs->reindex && (!l->k || l->k[i].format == KV_RAW);
}

static bool raw_value(const kv_lane *l, int i) {
  return !l->v || l->v[i].format == KV_RAW;
}

static bool coded_key(const kv_lane *l, int i) {
  return l->k && l->k[i].format >= KV_CODED;
}

static bool coded_value(const kv_lane *l, int i) {
  return l->v && l->v[i].format >= KV_CODED;
}

/* Key of entry i as attention reads it, fp32. */
static void read_key(const kv_lane *l, int i, kv_attend_scratch *x,
                     float *row) {
  kv_lane_key(l, i, row);
  if (l->needs->reindex) kv_place_row(l->places, l->id[i], i, x->room, row);
}

void kv_lane_materialise(const kv_lane *l, int i, const kv_materialised *to,
                         kv_attend_scratch *x) {
  if (to->k && coded_key(l, i))
    read_key(l, i, x, to->k + (size_t)i * (size_t)l->shape->d);
  if (to->v && coded_value(l, i))
    kv_lane_value(l, i, to->v + (size_t)i * (size_t)l->shape->d_v);
}

/* Coded rows of one kind next to one another from which reading them as they
 * are stored pays: a register full of keys. */
enum { LEAST_IN_PLACE = 16 };

/* How many of at most `count` entries from i on are in the slab of entry i. */
static int alike(const kv_cell_ref *side, int i, int count) {
  int n = 1;
  while (n < count && side[i + n].format == side[i].format) n++;
  return n;
}

/* Names the blocks of coded rows from entry i on, at most count, where kernels
 * read them as they are; returns how many, or 0. */
static int name_blocks(const kv_lane *l, const kv_cell_ref *side,
                       const kv_slab *slab, int i, int count,
                       kv_attend_scratch *x, kv_row_kind *kind) {
  if (!side || side[i].format < KV_CODED) return 0;
  const kv_slab *s = &slab[side[i].format];
  const kv_format *format = s->coding->format;
  if (!format->in_place ||
      !format->in_place(s->coding->settings, &kind->bits, &kind->run) ||
      !l->kernels->codes_suit(kind->bits, kind->run, s->width))
    return 0;
  int n = alike(side, i, count);
  if (n < count && n < LEAST_IN_PLACE) return 0;
  for (int j = 0; j < n; j++)
    x->row[j] = s->data + (size_t)side[i + j].block * s->size;
  return n;
}

/* Keys as they are stored, where they need not be turned. */
static int name_key_blocks(const kv_lane *l, int i, int count,
                           kv_attend_scratch *x, kv_row_kind *kind) {
  if (!coded_key(l, i) || x->materialised.k || l->needs->reindex) return 0;
  if (l->needs->coding[l->k[i].format - KV_CODED].pre_rope) return 0;
  return name_blocks(l, l->k, l->k_slab, i, count, x, kind);
}

/* Names a run of key rows of one kind from entry i on, at most count. */
static int name_keys(const kv_lane *l, int i, int count, kv_attend_scratch *x,
                     kv_dtype *type) {
  bool raw = raw_key(l, i);
  int n = 0, d = l->shape->d;
  size_t size = (size_t)d * kv_dtype_size(l->shape->dtype);
  const char *base = kv_lane_raw_key(l, 0);
  *type = raw ? l->shape->dtype : KV_F32;
  for (; n < count && raw_key(l, i + n) == raw; n++) {
    if (raw) {
      x->row[n] = base + l->id[i + n] * size;
      continue;
    }
    if (x->materialised.k && coded_key(l, i + n)) {
      x->row[n] = x->materialised.k + (size_t)(i + n) * (size_t)d;
      continue;
    }
    float *row = x->rows + (size_t)n * (size_t)d;
    read_key(l, i + n, x, row);
    x->row[n] = row;
  }
  return n;
}

/* Takes logits that are known for raw entries from..; returns how many. */
static int copy_known(const kv_lane *l, int m, int i, int count,
                      const float *known, size_t known_stride, float *s,
                      size_t lds) {
  int n = 0;
  bool own_places = !l->dropped && !l->holes; /* entry i is token i */
  while (n < count && raw_key(l, i + n)) n++;
  for (int h = 0; h < m; h++) {
    const float *from = known + (size_t)h * known_stride;
    float *to = s + (size_t)h * lds + i;
    if (own_places)
      memcpy(to, from + i, (size_t)n * sizeof *to);
    else
      for (int j = 0; j < n; j++) to[j] = from[l->id[i + j]];
  }
  return n;
}

static void add_bias(const kv_lane *l, int m, int first, int count, float *s,
                     size_t lds) {
  if (l->needs->merge_bias == 0 || l->rewritten == 0) return;
  for (int i = first; i < first + count; i++) {
    if (l->weight[i] == 1) continue;
    float bias = kv_lane_bias(l, i);
    for (int h = 0; h < m; h++) {
      float *at = s + (size_t)h * lds + i;
      *at = *at + bias + 0.0f;
    }
  }
}

/* Logits, without bias, of entries of one kind from i on, at most count;
 * returns how many. */
static int some_logits(const kv_kernels *kernel, const kv_lane *l, int m,
                       const float *q, size_t ldq, int i, int count, float *s,
                       size_t lds, kv_attend_scratch *x) {
  const kv_shape *shape = l->shape;
  kv_row_kind of;
  int n = count < KV_KEYS ? count : KV_KEYS;
  n = m < KV_MANY_HEADS ? name_key_blocks(l, i, n, x, &of) : 0;
  if (n > 0) {
    kernel->code_logits(m, n, shape->d, q, ldq, x->row, of.bits, of.run,
                        shape->scale, s, lds, x->pack);
    kernel->softcap(shape->softcap, m, n, s, lds);
    return n;
  }
  n = count < KV_CHUNK ? count : KV_CHUNK; /* rows that can be decoded */
  n = name_keys(l, i, n, x, &of.type);
  kernel->logits(m, n, shape->d, q, ldq, x->row, of.type, shape->scale, s, lds,
                 x->pack);
  kernel->softcap(shape->softcap, m, n, s, lds);
  return n;
}

void kv_lane_logits(const kv_kernels *kernel, const kv_lane *l, int m,
                    const float *q, size_t ldq, int first, int count,
                    const float *known, size_t known_stride, float *s,
                    size_t lds, kv_attend_scratch *x) {
  for (int i = first, left = count; left > 0;) {
    int n = 0;
    if (known) n = copy_known(l, m, i, left, known, known_stride, s, lds);
    if (n == 0) n = some_logits(kernel, l, m, q, ldq, i, left, s + i, lds, x);
    i += n;
    left -= n;
  }
  add_bias(l, m, first, count, s, lds);
}

/* --- values of a view --------------------------------------------------- */

/* The entry at place `at` of the view; chunks come in order, so the run is
 * found by going on from the last one. */
static int entry_of(kv_lane_values *v, int at) {
  if (at < v->before) v->at_run = v->before = 0;
  while (at - v->before >= v->view->run[v->at_run].count)
    v->before += v->view->run[v->at_run++].count;
  return v->view->run[v->at_run].first + at - v->before;
}

/* Past the last entry of the current run. */
static int run_end(const kv_lane_values *v) {
  return v->view->run[v->at_run].first + v->view->run[v->at_run].count;
}

int kv_lane_value_rows(void *values, int first, int count, kv_attend_scratch *x,
                       kv_row_kind *kind) {
  kv_lane_values *v = values;
  const kv_lane *l = v->lane;
  int entry = entry_of(v, first), end = run_end(v), n = 0;
  if (!x->materialised.v) {
    int left = end - entry < count ? end - entry : count;
    n = name_blocks(l, l->v, l->v_slab, entry, left, x, kind);
    if (n > 0) return n;
  }
  bool raw = raw_value(l, entry);
  size_t size = (size_t)l->shape->d_v * kv_dtype_size(l->shape->dtype);
  const char *base = kv_lane_raw_value(l, 0);
  *kind = (kv_row_kind){.type = raw ? l->shape->dtype : KV_F32};
  for (; n < count; n++, entry++) {
    if (entry == end) {
      entry = entry_of(v, first + n);
      end = run_end(v);
    }
    if (raw_value(l, entry) != raw) break;
    if (raw) {
      x->row[n] = base + l->id[entry] * size;
    } else if (x->materialised.v && coded_value(l, entry)) {
      x->row[n] = x->materialised.v + (size_t)entry * (size_t)l->shape->d_v;
    } else {
      float *row = x->rows + (size_t)n * (size_t)l->shape->d_v;
      kv_lane_value(l, entry, row);
      x->row[n] = row;
    }
  }
  return n;
}
