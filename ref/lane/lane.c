/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes: memory, append and reading. Bytes are counted in ref/lane/bytes.c.
 */
#include "ref/lane/lane.h"
#include "ref/formats/hadamard.h"
#include "ref/ground/arith.h"
#include "ref/ground/large.h"
#include "ref/kernels/kernels.h"
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* --- slabs: blocks of rewritten rows ------------------------------------ */

kv_coded_size kv_slab_bytes(const kv_slab *s, int members) {
  if (s->coding)
    return kv_coding_size(s->coding, s->part, s->parts, members, s->width);
  return (kv_coded_size){.codes = (size_t)s->width * kv_dtype_size(s->type)};
}

int kv_slab_named(const kv_slab *s) {
  return s->coding->format->layered->named(s->coding->settings);
}

/* Bytes that a block takes in memory. */
static size_t block_size(const kv_slab *s, int members) {
  const kv_layered *f = s->coding ? s->coding->format->layered : NULL;
  kv_coded_size size = kv_slab_bytes(s, members);
  if (!f) return size.codes + size.metadata;
  size_t all = f->bytes(s->coding->settings);
  return (size_t)s->width * sizeof(float) +
         (size_t)kv_slab_named(s) * sizeof(int32_t) +
         kv_part_begin(all, s->part + 1, s->parts) -
         kv_part_begin(all, s->part, s->parts);
}

/* cap 0: this side is never stored in this format and takes no memory. classed:
 * bytes are counted by class, so a group must be counted only once. s has its
 * coding or type already. */
static kv_rc slab_init(kv_slab *s, int members, int width, int cap,
                       bool classed, kv_err *e) {
  s->width = width, s->cap = cap;
  s->size = (block_size(s, members) + 15) / 16 * 16;
  size_t n = (size_t)cap;
  if (!cap) return KV_OK;
  s->free = kv_zalloc(n, sizeof *s->free);
  s->members = kv_zalloc(n, sizeof *s->members);
  s->live = kv_zalloc(n, sizeof *s->live);
  s->data = kv_zalloc_large(n, s->size);
  if (s->data) kv_large_once_full(s->data, n * s->size);
  bool each = classed && members > 1;
  if (each) s->walked = kv_zalloc(n, sizeof *s->walked);
  if (s->free && s->members && s->live && s->data && (s->walked || !each))
    return KV_OK;
  return kv_no_memory(e, "rewritten rows", n * s->size);
}

static void slab_release(kv_slab *s) {
  free(s->free);
  free(s->members);
  free(s->live);
  free(s->walked);
  free(s->data);
}

static void slab_begin(kv_slab *s) {
  s->used = s->n_free = s->held = 0;
  s->bytes = (kv_coded_size){0};
}

/* --- life --------------------------------------------------------------- */

static kv_rc init_coded(kv_lane *l, int i, kv_err *e) {
  const kv_coding *c = &l->needs->coding[i];
  int t = l->shape->n_tokens, m = kv_coding_members(c);
  int cap = m > 1 ? t / m + 1 : t;
  bool classed = l->needs->classes > 1;
  cap++; /* a group coded anew takes its new block before it leaves the old */
  int keys = kv_codes_keys(c) ? cap : 0, values = kv_codes_values(c) ? cap : 0;
  kv_slab *k = &l->k_slab[KV_CODED + i], *v = &l->v_slab[KV_CODED + i];
  k->parts = v->parts = 2 * kv_lane_count(l->needs, l->shape);
  k->part = 2 * l->lane, v->part = 2 * l->lane + 1;
  k->coding = v->coding = c;
  k->type = v->type = KV_F32;
  kv_rc rc = slab_init(k, m, l->shape->d, keys, classed, e);
  return rc ? rc : slab_init(v, m, l->shape->d_v, values, classed, e);
}

static kv_rc init_merged(kv_lane *l, kv_err *e) {
  const kv_shape *s = l->shape;
  kv_slab *k = &l->k_slab[KV_MERGED], *v = &l->v_slab[KV_MERGED];
  k->type = v->type = kv_merged_type(l->needs, s);
  kv_rc rc = slab_init(k, 1, s->d, s->n_tokens, false, e);
  return rc ? rc : slab_init(v, 1, s->d_v, s->n_tokens, false, e);
}

static kv_rc init_slabs(kv_lane *l, kv_err *e) {
  kv_rc rc = l->needs->merges ? init_merged(l, e) : KV_OK;
  for (int i = 0; !rc && i < l->needs->codings; i++) rc = init_coded(l, i, e);
  return rc;
}

static bool init_entries(kv_lane *l) {
  size_t t = (size_t)l->shape->n_tokens + KV_BEYOND;
  bool rewrites = l->needs->merges || l->needs->codings;
  l->id = kv_zalloc(t, sizeof *l->id);
  l->weight = kv_zalloc(t, sizeof *l->weight);
  bool ok = l->id && l->weight;
  if (l->needs->classes > 1) {
    l->tier = kv_zalloc(t, sizeof *l->tier);
    ok = ok && l->tier;
  }
  if (rewrites) {
    l->k = kv_zalloc(t, sizeof *l->k);
    l->v = kv_zalloc(t, sizeof *l->v);
    ok = ok && l->k && l->v;
  }
  if (l->needs->merges) {
    l->last = kv_zalloc(t, sizeof *l->last);
    l->next = kv_zalloc(t, sizeof *l->next);
    ok = ok && l->last && l->next;
  }
  for (int c = 0; c < l->needs->columns; c++) {
    l->column[c].i = kv_zalloc(t, (size_t)kv_column_size(l->needs->column[c]));
    ok = ok && l->column[c].i;
  }
  return ok;
}

kv_rc kv_lane_room_init(kv_lane_room *r, int n_tokens, kv_err *e) {
  size_t t = (size_t)n_tokens;
  r->list = kv_zalloc(t, sizeof *r->list);
  r->spare = kv_zalloc(t, sizeof *r->spare);
  if (r->list && r->spare) return KV_OK;
  return kv_no_memory(e, "verbs", t * (sizeof *r->list + sizeof *r->spare));
}

void kv_lane_room_release(kv_lane_room *r) {
  free(r->list);
  free(r->spare);
}

/* Most words of one step's records. An entry that a verb names takes at most 8
 * (in a recode of one entry 8, a move or retier 7, a merge 9 for two), in a
 * keep 2. */
static size_t words_of(const kv_needs *n, int n_tokens) {
  return (8 * (size_t)kv_needs_changes(n) + 2) * (size_t)n_tokens + 64;
}

kv_rc kv_lane_init(kv_lane *l, const kv_shape *shape, const kv_needs *needs,
                   const kv_kernels *kernels, int lane, kv_err *e) {
  int group = kv_group(shape);
  bool own = needs->lanes == QUERY_HEAD;
  size_t t = (size_t)shape->n_tokens;
  *l = (kv_lane){.shape = shape,
                 .needs = needs,
                 .kernels = kernels,
                 .lane = lane,
                 .kv_head = own ? lane / group : lane,
                 .first_head = own ? lane : lane * group,
                 .queries = own ? 1 : group};
  if (needs->lane_state) {
    l->own = kv_zalloc(1, needs->lane_state);
    if (!l->own) return kv_no_memory(e, "a method's state", needs->lane_state);
  }
  int members = 1;
  for (int i = 0; i < needs->codings; i++) {
    int m = kv_coding_members(&needs->coding[i]);
    if (m > members) members = m;
  }
  size_t wide = (size_t)(shape->d > shape->d_v ? shape->d : shape->d_v);
  l->f32 = kv_zalloc(wide * (size_t)(members + 3), sizeof *l->f32);
  l->rows = kv_zalloc((size_t)members, sizeof *l->rows);
  if (!l->f32 || !l->rows || !init_entries(l))
    return kv_no_memory(e, "a lane", t * sizeof *l->id);
  kv_rc rc = init_slabs(l, e);
  if (!rc) rc = kv_words_init(&l->verbs, words_of(needs, shape->n_tokens), e);
  size_t views = (size_t)l->queries * (t + 8);
  return rc ? rc : kv_words_init(&l->views, views, e);
}

void kv_lane_release(kv_lane *l) {
  free(l->id);
  free(l->weight);
  free(l->tier);
  free(l->rows);
  free(l->k);
  free(l->v);
  free(l->last);
  free(l->next);
  free(l->own);
  free(l->f32);
  for (int c = 0; c < KV_MAX_COLUMNS; c++) free(l->column[c].i);
  for (int f = 0; f < KV_SLABS; f++) {
    slab_release(&l->k_slab[f]);
    slab_release(&l->v_slab[f]);
  }
  kv_words_release(&l->verbs);
  kv_words_release(&l->views);
}

void kv_lane_mark(kv_lane *l) { l->touched = INT_MAX; }

void kv_lane_begin(kv_lane *l, const kv_needs *needs,
                   const kv_layer_data *data) {
  l->needs = needs;
  l->data = data;
  /* Only hooks write to the state, and only after tokens have entered. Memory
   * that was never touched stays untouched. */
  if (l->own && l->step) memset(l->own, 0, l->needs->lane_state);
  l->n = l->rewritten = l->step = 0;
  l->marked = l->tail = 0;
  l->dropped = l->holes = false;
  l->rewrites = (kv_digest){{0}};
  kv_lane_mark(l);
  l->fault = (kv_err){0};
  l->views.n = l->verbs.n = 0;
  for (int f = 0; f < KV_SLABS; f++) {
    slab_begin(&l->k_slab[f]);
    slab_begin(&l->v_slab[f]);
  }
}

void kv_lane_append(kv_lane *l, int first, int count) {
  assert(l->n + count <= l->shape->n_tokens && "a lane holds at most T");
  assert(l->marked == 0 && "a hook's merges were swept");
  for (int j = 0; j < count; j++) {
    int i = l->n++;
    l->id[i] = (uint32_t)(first + j);
    l->weight[i] = 1;
    if (l->tier) l->tier[i] = 0;
    if (l->k) l->k[i] = l->v[i] = (kv_cell_ref){.format = KV_RAW};
    if (l->last) l->last[i] = l->id[i];
    for (int c = 0; c < l->needs->columns; c++) {
      if (l->needs->column[c] == KV_INT64)
        l->column[c].i[i] = 0;
      else
        l->column[c].f[i] = 0;
    }
  }
  l->step = first + count;
}

/* --- reading ------------------------------------------------------------ */

static const void *raw(const void *base, const kv_lane *l, int width,
                       uint32_t t) {
  size_t row = (size_t)l->kv_head * (size_t)l->shape->n_tokens + t;
  size_t bytes = (size_t)width * kv_dtype_size(l->shape->dtype);
  return (const char *)base + row * bytes;
}

const void *kv_lane_raw_key(const kv_lane *l, uint32_t t) {
  return raw(l->data->k, l, l->shape->d, t);
}

const void *kv_lane_raw_value(const kv_lane *l, uint32_t t) {
  return raw(l->data->v, l, l->shape->d_v, t);
}

static void read_row(const kv_lane *l, const kv_cell_ref *r,
                     const kv_slab *slab, const void *trace, int width,
                     float *out) {
  if (!r || r->format == KV_RAW) {
    l->kernels->widen(l->shape->dtype, trace, (size_t)width, out);
    return;
  }
  const kv_slab *s = &slab[r->format];
  const char *block = s->data + (size_t)r->block * s->size;
  if (r->format == KV_MERGED) {
    l->kernels->widen(s->type, block, (size_t)width, out);
    return;
  }
  const kv_coding *c = &l->needs->coding[r->format - KV_CODED];
  c->format->decode(l->kernels, kv_lane_settings(l, c), s->members[r->block],
                    width, block, r->member, out);
}

/* --- prepared rows ------------------------------------------------------ */

static void shift(const kv_lane *l, const kv_coding *c, uint32_t t, float sign,
                  float *key) {
  const float *u = (const float *)(const void *)((char *)l->own + c->shift);
  if (!c->pre_rope)
    kv_turn_add(l->turns, t, sign, u, key);
  else
    for (int i = 0; i < l->shape->d; i++) key[i] += sign * u[i];
}

void kv_lane_prepare(const kv_lane *l, const kv_coding *c, bool key, uint32_t t,
                     float *row) {
  if (key && c->pre_rope) kv_turn_back(l->turns, t, row);
  if (key && c->shifted) shift(l, c, t, -1, row);
  if (c->rotate) kv_hadamard(key ? l->shape->d : l->shape->d_v, row);
}

void kv_lane_restore(const kv_lane *l, const kv_coding *c, bool key, uint32_t t,
                     float *row) {
  if (c->rotate) kv_hadamard(key ? l->shape->d : l->shape->d_v, row);
  if (key && c->shifted) shift(l, c, t, 1, row);
  if (key && c->pre_rope) kv_turn_forth(l->turns, t, row);
}

/* Undoes what the coding of entry i, if it has one, did to a row. */
static void restore(const kv_lane *l, const kv_cell_ref *side, bool key, int i,
                    float *row) {
  if (!side || side[i].format < KV_CODED) return;
  kv_lane_restore(l, &l->needs->coding[side[i].format - KV_CODED], key,
                  l->id[i], row);
}

/* --- reading rows ------------------------------------------------------- */

void kv_lane_key(const kv_lane *l, int i, float *out) {
  read_row(l, l->k ? &l->k[i] : NULL, l->k_slab, kv_lane_raw_key(l, l->id[i]),
           l->shape->d, out);
  restore(l, l->k, true, i, out);
}

void kv_lane_value(const kv_lane *l, int i, float *out) {
  read_row(l, l->v ? &l->v[i] : NULL, l->v_slab, kv_lane_raw_value(l, l->id[i]),
           l->shape->d_v, out);
  restore(l, l->v, false, i, out);
}

float kv_lane_bias(const kv_lane *l, int i) {
  if (l->needs->merge_bias == 0 || l->weight[i] == 1) return 0;
  return l->needs->merge_bias * kv_log((float)l->weight[i]);
}

/* --- state -------------------------------------------------------------- */

enum { STATE_WORDS = 5 + 2 * KV_MAX_COLUMNS };

/* Does any entry have a class other than 0? If not, the state omits classes. */
static bool has_classes(const kv_lane *l) {
  for (int i = 0; l->tier && i < l->n; i++)
    if (l->tier[i]) return true;
  return false;
}

static int state_words(const kv_lane *l, int i, bool classes, uint32_t *w) {
  int n = 0;
  w[n++] = l->id[i];
  w[n++] = l->weight[i];
  w[n++] = l->k ? l->k[i].format : KV_RAW;
  w[n++] = l->v ? l->v[i].format : KV_RAW;
  for (int c = 0; c < l->needs->columns; c++) {
    if (l->needs->column[c] == KV_FLOAT) {
      w[n++] = kv_bits_of(l->column[c].f[i]);
      continue;
    }
    uint64_t u = (uint64_t)l->column[c].i[i];
    w[n++] = (uint32_t)u;
    w[n++] = (uint32_t)(u >> 32);
  }
  if (classes) w[n++] = l->tier[i];
  return n;
}

kv_digest kv_lane_state(const kv_lane *l) {
  uint32_t w[64 * STATE_WORDS]; /* 64 entries at a time */
  bool classes = has_classes(l);
  kv_sha256 h;
  kv_sha256_init(&h);
  for (int i = 0; i < l->n;) {
    int n = 0;
    for (int j = 0; j < 64 && i < l->n; j++, i++)
      n += state_words(l, i, classes, w + n);
    kv_sha256_add(&h, w, (size_t)n * sizeof *w);
  }
  kv_sha256_add(&h, l->rewrites.byte, sizeof l->rewrites.byte);
  return kv_sha256_end(&h);
}

/* --- copying a lane ------------------------------------------------------ */

/* Only the used part of each array is read and written, so a lane with capacity
 * for many tokens costs only its few entries. */

/* Whole large pages are allocated at once; the rest follows as the slab grows
 * (ref/ground/large.h). */
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

/* The method's state begins as zeros, and often only its first pages are used.
 * Pages of zeros are not written. */
static void copy_state(size_t n, const char *from, char *to) {
  enum { PAGE = 4096 };
  static const char zeros[PAGE];
  for (size_t at = 0; at < n; at += PAGE) {
    size_t m = n - at < PAGE ? n - at : PAGE;
    if (memcmp(from + at, zeros, m) != 0) memcpy(to + at, from + at, m);
  }
}

/* n elements of an array that both lanes have, or neither. */
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
  /* by token, for all tokens that have entered */
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
