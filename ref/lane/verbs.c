/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs: after append, only they change stored memory. Each writes its
 * record first and then carries it out.
 */
#include "ref/ground/arith.h"
#include "ref/ground/large.h"
#include "ref/lane/lane.h"
#include "ref/lane/select.h"
#include <assert.h>
#include <string.h>

/* Appends a record of this kind to the verbs of the lane's current step and
 * returns its `count` words, to be filled. NULL: the step has named entries
 * more often than needs.changes allows; the lane's fault is then set, and the
 * verb must return without changing anything. */
static uint32_t *record(kv_lane *l, kv_record kind, size_t count) {
  uint32_t *w =
      kv_words_record(&l->verbs, kind, l->data->layer, l->step, l->lane, count);
  if (!w && !l->fault.rc)
    kv_fail(&l->fault, KV_INTERNAL,
            "layer %d, lane %d, step %d: the verbs of this step name more "
            "entries than needs.changes (%d) allows; declare more in open",
            l->data->layer, l->lane, l->step, kv_needs_changes(l->needs));
  return w;
}

/* Notes that entries from index i on have changed or moved, so that what was
 * derived from them is recomputed. l->touched is the lowest such index. */
static void touch(kv_lane *l, int i) {
  if (i < l->touched) l->touched = i;
}

/* --- blocks ------------------------------------------------------------- */

/* Takes the next block never used. All blocks before it have been written. */
static int new_block(kv_slab *s) {
  size_t end = (size_t)s->used * s->size;
  if (s->used > 0) kv_large_filled(s->data, end - s->size, end);
  return s->used++;
}

/* Takes a free block of slab s for `members` rows, charges its bytes and
 * returns its index. There always is one (asserted), because a slab has one for
 * every token. */
static int take(kv_slab *s, int members) {
  int b = s->n_free ? s->free[--s->n_free] : new_block(s);
  assert(b < s->cap && "a slab has room for every token");
  kv_coded_size size = kv_slab_bytes(s, members);
  s->members[b] = s->live[b] = (uint16_t)members;
  s->held += members;
  s->bytes.codes += size.codes;
  s->bytes.metadata += size.metadata;
  return b;
}

/* Removes one side of an entry, K or V, from its block in slab[r->format]. When
 * the block's last live member leaves, the block becomes free and its bytes are
 * no longer charged. *r becomes KV_RAW; if it is already, nothing happens. */
static void leave(kv_slab *slab, kv_cell_ref *r) {
  if (r->format == KV_RAW) return;
  kv_slab *s = &slab[r->format];
  assert(s->live[r->block] > 0);
  s->held--;
  if (--s->live[r->block] == 0) {
    kv_coded_size size = kv_slab_bytes(s, s->members[r->block]);
    s->bytes.codes -= size.codes;
    s->bytes.metadata -= size.metadata;
    s->free[s->n_free++] = r->block;
  }
  r->format = KV_RAW;
}

/* True if K or V of entry i is stored as codes or as a mean. */
static bool is_rewritten(const kv_lane *l, int i) {
  return l->k && (l->k[i].format != KV_RAW || l->v[i].format != KV_RAW);
}

static void drop(kv_lane *l, int i) {
  if (!l->k) return;
  l->rewritten -= is_rewritten(l, i);
  leave(l->k_slab, &l->k[i]);
  leave(l->v_slab, &l->v[i]);
}

/* a[i] = a[list[i]] for i < n, elements of 2^k bytes; through the spare buffer
 * unless list ascends: then list[i] >= i, and nothing is overwritten early. */
static void gather(kv_lane *l, void *array, size_t size, int n,
                   const int32_t *list, bool ascending) {
  char *a = array, *to = ascending ? a : (char *)l->room.spare;
  if (!array) return;
  for (int i = 0; i < n; i++)
    memmove(to + (size_t)i * size, a + (size_t)list[i] * size, size);
  if (!ascending) memcpy(a, to, (size_t)n * size);
}

static size_t column_size(const kv_lane *l, int c) {
  return (size_t)kv_column_size(l->needs->column[c]);
}

static void reorder(kv_lane *l, int n, const int32_t *list, bool ascending) {
  gather(l, l->id, sizeof *l->id, n, list, ascending);
  gather(l, l->weight, sizeof *l->weight, n, list, ascending);
  gather(l, l->tier, sizeof *l->tier, n, list, ascending);
  gather(l, l->k, sizeof *l->k, n, list, ascending);
  gather(l, l->v, sizeof *l->v, n, list, ascending);
  gather(l, l->last, sizeof *l->last, n, list, ascending);
  for (int c = 0; c < l->needs->columns; c++)
    gather(l, l->column[c].i, column_size(l, c), n, list, ascending);
}

/* Adds entry i, as it is stored now, to the lane's digest of rewrites: R <-
 * SHA-256(R || id || K || V), both decoded to fp32. Returns the d floats of K
 * followed by the d_v of V, valid until the next verb of the lane. */
static const float *note(kv_lane *l, int i) {
  float *k = l->f32, *v = l->f32 + l->shape->d;
  kv_sha256 h;
  kv_sha256_init(&h);
  kv_sha256_add(&h, l->rewrites.byte, sizeof l->rewrites.byte);
  kv_sha256_add(&h, &l->id[i], sizeof l->id[i]);
  kv_lane_key(l, i, k);
  kv_lane_value(l, i, v);
  kv_sha256_add(&h, k, (size_t)l->shape->d * sizeof *k);
  kv_sha256_add(&h, v, (size_t)l->shape->d_v * sizeof *v);
  l->rewrites = kv_sha256_end(&h);
  return k;
}

/* --- keep --------------------------------------------------------------- */

static void sort_ids(uint32_t *id, int n) { /* heap sort: allocates nothing */
  for (int end = n, start = n / 2; end > 1;) {
    if (start > 0)
      start--;
    else {
      end--;
      uint32_t t = id[end];
      id[end] = id[0];
      id[0] = t;
    }
    int root = start;
    for (int child; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && id[child] < id[child + 1]) child++;
      if (id[root] >= id[child]) break;
      uint32_t t = id[root];
      id[root] = id[child];
      id[child] = t;
    }
  }
}

/* Writes the dropped ids, ascending; most lanes are in id order already. */
static void write_dropped(const kv_lane *l, const uint8_t *stays,
                          uint32_t *out) {
  int m = 0;
  bool sorted = true;
  for (int i = 0; i < l->n; i++) {
    if (stays[i] || l->weight[i] == 0) continue;
    out[m++] = l->id[i];
    if (m > 1 && out[m - 1] < out[m - 2]) sorted = false;
  }
  if (!sorted) sort_ids(out, m);
}

static bool is_prefix(int n, const int32_t *list) {
  for (int i = 0; i < n; i++)
    if (list[i] != i) return false;
  return true;
}

static void keep(kv_lane *l, int n, const int32_t *list) {
  int live = l->n - l->marked;
  assert(n >= 0 && n <= live && "keep lists live entries once");
  bool prefix = is_prefix(n, list), ascending = true;
  for (int i = 1; i < n; i++) ascending = ascending && list[i] > list[i - 1];
  if (ascending && n == live) {
    kv_sweep(l);
    return;
  }
  size_t m = (size_t)(live - n);
  size_t count = m + 2 + (ascending ? 0 : (size_t)n);
  uint32_t *w = record(l, KV_KEEP, count);
  if (!w) return;
  uint8_t *stays = (uint8_t *)l->room.spare;
  memset(stays, 0, (size_t)l->n);
  for (int i = 0; i < n; i++) {
    assert(kv_is_live(l, list[i]) && "keep lists live entries");
    assert(!stays[list[i]] && "keep lists an entry once");
    stays[list[i]] = 1;
  }
  w[0] = (uint32_t)m;
  write_dropped(l, stays, w + 1);
  w[1 + m] = !ascending;
  if (!ascending)
    for (int i = 0; i < n; i++) w[2 + m + (size_t)i] = l->id[list[i]];
  for (int i = 0; i < l->n; i++)
    if (!stays[i]) drop(l, i);
  int same = 0;
  while (same < n && list[same] == same) same++;
  touch(l, same);
  if (m) l->dropped = true;
  if (!prefix) l->holes = true;
  reorder(l, n, list, ascending);
  l->n = n;
  l->marked = l->tail = 0;
}

/* Calls the observer first, while all entries are live. Not while entries are
 * marked: then the list is not a selection of the lane's entries alone. */
static void keep_as_seen(kv_lane *l, const bool *flags, int n,
                         const int32_t *list) {
  const kv_selecting *s = kv_selecting_now;
  if (s && l->marked == 0) list = s->keeps(s->self, l, flags, list, &n);
  keep(l, n, list);
}

void kv_keep(kv_lane *l, int n, const int32_t *list) {
  keep_as_seen(l, NULL, n, list);
}

void kv_keep_mask(kv_lane *l, const bool *flags) {
  int n = 0;
  for (int i = 0; i < l->n; i++)
    if (flags[i] && l->weight[i] != 0) l->room.list[n++] = i;
  keep_as_seen(l, flags, n, l->room.list);
}

/* --- merge -------------------------------------------------------------- */

/* x_into <- fma(a, x_into, b * x_from) / (a + b), arithmetic 8. */
static void blend(int n, float a, float b, const float *from, float *into) {
  float den = a + b;
  for (int x = 0; x < n; x++) into[x] = kv_fma(a, into[x], b * from[x]) / den;
}

/* Puts a row into its block, each element rounded to the slab's type. */
static void put_row(const kv_slab *s, int block, const float *x) {
  void *to = s->data + (size_t)block * s->size;
  uint16_t *half = to;
  if (s->type == KV_F32)
    memcpy(to, x, (size_t)s->width * sizeof *x);
  else if (s->type == KV_F16)
    for (int i = 0; i < s->width; i++) half[i] = kv_to_f16(x[i]);
  else
    for (int i = 0; i < s->width; i++) half[i] = kv_to_bf16(x[i]);
}

static void merge_side(kv_lane *l, int into, int from, float a, float b,
                       bool key) {
  kv_slab *slab = key ? l->k_slab : l->v_slab;
  kv_cell_ref *r = key ? &l->k[into] : &l->v[into];
  int width = key ? l->shape->d : l->shape->d_v;
  float *x = l->f32, *y = l->f32 + width;
  if (key) {
    kv_lane_key(l, into, x);
    kv_lane_key(l, from, y);
  } else {
    kv_lane_value(l, into, x);
    kv_lane_value(l, from, y);
  }
  blend(width, a, b, y, x);
  if (r->format != KV_MERGED) {
    leave(slab, r);
    *r = (kv_cell_ref){take(&slab[KV_MERGED], 1), 0, KV_MERGED};
  }
  put_row(&slab[KV_MERGED], r->block, x);
}

/* Member lists begin with the oldest id; the younger list is appended. */
static void join_members(kv_lane *l, int into, int from) {
  uint32_t a = l->id[into], b = l->id[from];
  if (a < b) {
    l->next[l->last[into]] = b;
    l->last[into] = l->last[from];
  } else {
    l->next[l->last[from]] = a;
    l->id[into] = b;
  }
}

/* The entry gives up its blocks now and its index at the next sweep. */
static void mark(kv_lane *l, int gone) {
  drop(l, gone);
  if (l->marked == 0 || gone < l->first_marked) l->first_marked = gone;
  l->marked++;
  l->weight[gone] = 0;
  if (gone != l->n - 1 - l->tail) l->holes = true;
  while (l->tail < l->n && l->weight[l->n - 1 - l->tail] == 0) l->tail++;
}

void kv_merge_fails(kv_err *e, int layer, int lane, int step, uint32_t id) {
  if (e->rc) return;
  kv_fail(e, KV_REFUSED,
          "layer %d, lane %d, step %d: merging into token %u gives a mean that "
          "is not finite as stored",
          layer, lane, step, id);
}

/* row: K, then V, as they are stored. */
static void check_mean(kv_lane *l, uint32_t id, const float *row) {
  bool finite = true;
  for (int x = 0; x < l->shape->d + l->shape->d_v; x++)
    finite = finite && kv_finite(row[x]);
  if (!finite) kv_merge_fails(&l->fault, l->data->layer, l->lane, l->step, id);
}

void kv_merge(kv_lane *l, int into, int from, float a, float b) {
  assert(l->needs->merges && "a method that merges says so in its needs");
  assert(into != from && kv_is_live(l, into) && kv_is_live(l, from) &&
         "merge names two live entries");
  uint32_t *w = record(l, KV_MERGE, 4);
  if (!w) return;
  w[0] = l->id[into];
  w[1] = l->id[from];
  w[2] = kv_bits_of(a);
  w[3] = kv_bits_of(b);
  l->rewritten += !is_rewritten(l, into);
  merge_side(l, into, from, a, b, true);
  merge_side(l, into, from, a, b, false);
  join_members(l, into, from);
  touch(l, into < from ? into : from);
  l->weight[into] += l->weight[from];
  l->dropped = true;
  check_mean(l, w[0], note(l, into));
  mark(l, from);
}

/* Writes the runs of live entries after the first marked one, as pairs of index
 * and count. Returns how many numbers that is, at most n: each run has at least
 * one entry and a marked one before it. */
static int live_runs(const kv_lane *l, int32_t *run) {
  int found = 0, left = l->marked;
  for (int i = l->first_marked; i < l->n;) {
    for (; i < l->n && l->weight[i] == 0; i++) left--;
    int start = i;
    if (left == 0) i = l->n;
    while (i < l->n && l->weight[i] != 0) i++;
    if (i == start) continue;
    run[found++] = start;
    run[found++] = i - start;
  }
  return found;
}

static void close_up(void *array, size_t size, int to, int n,
                     const int32_t *run) {
  char *a = array;
  for (int i = 0; a && i < n; to += run[i + 1], i += 2)
    memmove(a + (size_t)to * size, a + (size_t)run[i] * size,
            (size_t)run[i + 1] * size);
}

void kv_sweep(kv_lane *l) {
  if (l->marked == 0) return;
  int32_t *run = l->room.list;
  int n = live_runs(l, run), to = l->first_marked;
  close_up(l->id, sizeof *l->id, to, n, run);
  close_up(l->weight, sizeof *l->weight, to, n, run);
  close_up(l->tier, sizeof *l->tier, to, n, run);
  close_up(l->k, sizeof *l->k, to, n, run);
  close_up(l->v, sizeof *l->v, to, n, run);
  close_up(l->last, sizeof *l->last, to, n, run);
  for (int c = 0; c < l->needs->columns; c++)
    close_up(l->column[c].i, column_size(l, c), to, n, run);
  l->n -= l->marked;
  l->marked = l->tail = 0;
}

/* --- order and class ---------------------------------------------------- */

void kv_move(kv_lane *l, int from, int to) {
  assert(l->marked == 0 && "a move after a merge needs a sweep between them");
  assert(from >= 0 && to >= 0 && from < l->n && to < l->n);
  uint32_t *w = from == to ? NULL : record(l, KV_MOVE, 2);
  if (!w) return;
  w[0] = l->id[from];
  w[1] = (uint32_t)to;
  for (int i = 0, next = 0; i < l->n; i++) {
    if (next == from) next++;
    l->room.list[i] = i == to ? from : next++;
  }
  touch(l, from < to ? from : to);
  reorder(l, l->n, l->room.list, false);
  l->holes = true;
}

void kv_retier(kv_lane *l, int n, const int32_t *entry, int to) {
  assert(to >= 0 && to < l->needs->classes &&
         "a method that has classes says so in its needs");
  uint32_t *w = n ? record(l, KV_RETIER, (size_t)n + 1) : NULL;
  if (!w) return;
  w[0] = (uint32_t)to;
  for (int i = 0; i < n; i++) {
    assert(kv_is_live(l, entry[i]) && "retier names live entries");
    w[1 + i] = l->id[entry[i]];
    if (l->tier) l->tier[entry[i]] = (uint8_t)to;
  }
}

/* --- recode -------------------------------------------------------------- */

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
    kv_lane_prepare(l, c, key, l->id[entry[i]], row);
    l->rows[i] = row;
  }
  assert(slab[format].cap > 0 && "needs.coding is for this side");
  int b = take(&slab[format], n);
  void *out = slab[format].data + (size_t)b * slab[format].size;
  const void *settings = kv_lane_settings(l, c);
  if (!c->format->encode(settings, n, width, l->rows, out) && !l->fault.rc)
    kv_fail(
        &l->fault, KV_REFUSED,
        "layer %d, lane %d, step %d: the scale of a coded group is not finite "
        "as stored (first token %u); choose a format with a wider range",
        l->data->layer, l->lane, l->step, l->id[entry[0]]);
  for (int i = 0; i < n; i++) {
    leave(slab, &ref[entry[i]]);
    ref[entry[i]] = (kv_cell_ref){b, (uint16_t)i, (uint16_t)format};
  }
}

void kv_recode(kv_lane *l, int n, const int32_t *entry, int k_format,
               int v_format) {
  uint32_t *w = n ? record(l, KV_RECODE, (size_t)n + 2) : NULL;
  if (!w) return;
  w[0] = (uint32_t)k_format;
  w[1] = (uint32_t)v_format;
  for (int i = 0; i < n; i++) {
    assert(kv_is_live(l, entry[i]) && "recode names live entries");
    w[2 + i] = l->id[entry[i]];
    touch(l, entry[i]);
    l->rewritten += !is_rewritten(l, entry[i]);
  }
  if (k_format != KV_SAME) recode_side(l, n, entry, k_format, true);
  if (v_format != KV_SAME) recode_side(l, n, entry, v_format, false);
  for (int i = 0; i < n; i++) note(l, entry[i]);
}

/* --- recode a token of the layer ----------------------------------------- */

/* Where this side's part begins in a layered block. A slab stores the fp32 row,
 * then (for K) the ids that the block names, then this side's part. */
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
  int block = take(s, 1);
  char *to = s->data + (size_t)block * s->size;
  memcpy(to, row, (size_t)s->width * sizeof *row);
  if (key)
    memcpy(to + (size_t)s->width * sizeof *row, named,
           (size_t)kv_slab_named(s) * sizeof *named);
  memcpy(part_at(s, block), bytes + from, begin_of(all, s, s->part + 1) - from);
  leave(slab, ref);
  *ref = (kv_cell_ref){block, 0, (uint16_t)format};
}

static void put_token(kv_lane *l, int i, int format, const int32_t *named,
                      const void *block, const float *k, const float *v) {
  uint32_t *w = record(l, KV_RECODE, 3);
  if (!w) return;
  w[0] = w[1] = (uint32_t)format;
  w[2] = l->id[i];
  touch(l, i);
  l->rewritten += !is_rewritten(l, i);
  put_side(l, i, format, true, named, block, k);
  put_side(l, i, format, false, named, block, v);
  note(l, i);
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
