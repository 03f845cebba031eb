/* SPDX-License-Identifier: Apache-2.0
 *
 * The account of a cell's layouts (sim/replay/layout/layouts.h): its memory;
 * one layer's share; a replica of every lane of a layer in flight, which
 * reports rows written and left to the layouts; and sums over layers for a row
 * of results.
 */
#include "sim/replay/layout/layouts_part.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- life --------------------------------------------------------------- */

static kv_rc open_record(const kv_layouts *l, kv_layout_account *a, kv_err *e) {
  size_t layers = (size_t)l->layers, points = layers * (size_t)l->points;
  size_t lanes = (size_t)l->lanes;
  if (!kv_layout_tabled(a->asked->layout)) {
    a->point = kv_zalloc((size_t)l->points, sizeof *a->point);
    return a->point ? KV_OK : kv_no_memory(e, "what a request holds", points);
  }
  a->count = kv_zalloc(points, lanes * sizeof *a->count);
  a->moved = kv_zalloc(points, sizeof *a->moved);
  a->tier = kv_zalloc(layers, KV_TIERS * sizeof *a->tier);
  if (a->count && a->moved && a->tier) return KV_OK;
  return kv_no_memory(e, "what a request holds",
                      points * lanes * sizeof *a->count);
}

static kv_rc open_account(const kv_layouts *l, kv_layout_account *a,
                          kv_err *e) {
  const kv_layout_room room = {l->shape, l->needs, l->lanes, l->layers,
                               l->points};
  size_t rows = (size_t)l->rows, points = rows * (size_t)l->points;
  if (a->asked->layout->shared)
    a->asked->layout->shared(a->asked, &room, &a->shared);
  a->words = ((size_t)a->shared.pages + 63) / 64;
  a->at = kv_zalloc(points, sizeof *a->at);
  a->tables = kv_zalloc(rows, sizeof *a->tables);
  a->held = kv_zalloc(points * a->words, sizeof *a->held);
  a->wrote = kv_zalloc(rows * (size_t)a->shared.pages, sizeof *a->wrote);
  a->left = kv_zalloc(rows * (size_t)a->shared.pages, sizeof *a->left);
  a->ranks = kv_layout_ranks(a->asked);
  size_t regular = a->asked->layout->task ? points * (size_t)a->ranks : 0;
  a->regular = kv_zalloc(regular, sizeof *a->regular);
  if (a->at && a->regular && a->tables && a->held && a->wrote && a->left)
    return a->asked->record ? open_record(l, a, e) : KV_OK;
  return kv_no_memory(e, "the account of a layout",
                      points * (sizeof *a->at + a->words * sizeof *a->held));
}

kv_rc kv_layouts_open(const kv_layout_list *asked, const kv_shape *shape,
                      const kv_needs *needs, int layers, int lanes, int blocks,
                      bool apart, kv_layouts **out, kv_err *e) {
  kv_layouts *l = kv_zalloc(1, sizeof *l);
  *out = NULL;
  if (!l) return kv_no_memory(e, "layouts", sizeof *l);
  *l = (kv_layouts){.shape = shape,
                    .needs = needs,
                    .layers = layers,
                    .lanes = lanes,
                    .blocks = blocks,
                    .points = blocks + shape->n_tokens - shape->prompt_len,
                    .rows = apart ? layers : 1,
                    .of = kv_zalloc((size_t)asked->n, sizeof *l->of)};
  kv_rc rc = l->of ? KV_OK : kv_no_memory(e, "layouts", sizeof *l->of);
  for (int i = 0; !rc && i < asked->n; i++) {
    l->of[l->n].asked = &asked->item[i];
    rc = open_account(l, &l->of[l->n++], e);
  }
  if (rc) {
    kv_layouts_close(l);
    return rc;
  }
  for (int i = 0; i < l->rows; i++) kv_layouts_layer_begin(l, i);
  *out = l;
  return KV_OK;
}

void kv_layouts_close(kv_layouts *l) {
  if (!l) return;
  for (int i = 0; i < l->n; i++) {
    free(l->of[i].at);
    free(l->of[i].regular);
    free(l->of[i].tables);
    free(l->of[i].held);
    free(l->of[i].wrote);
    free(l->of[i].left);
    free(l->of[i].count);
    free(l->of[i].moved);
    free(l->of[i].tier);
    free(l->of[i].point);
  }
  free(l->of);
  free(l);
}

int kv_layouts_seen(const kv_layouts *l, int block) {
  int prompt = l->shape->prompt_len, past = block - (l->blocks - 1);
  return past >= 0 ? prompt + past : (block + 1) * l->needs->block;
}

/* The account's row that the index-th layer adds to. */
static int layouts_row(const kv_layouts *l, int layer) {
  assert(layer >= 0 && layer < l->layers);
  return l->rows == 1 ? 0 : layer;
}

/* --- one layer ---------------------------------------------------------- */

typedef struct part {
  void *at;
  size_t size;
} part;

enum { PARTS = 6 };

static void parts_of(const kv_layouts *l, const kv_layout_account *a, int row,
                     part out[PARTS]) {
  size_t points = (size_t)l->points, r = (size_t)row;
  size_t pages = (size_t)a->shared.pages;
  out[0] = (part){a->at + r * points, points * sizeof *a->at};
  out[1] = (part){a->held + r * points * a->words,
                  points * a->words * sizeof *a->held};
  out[2] = (part){a->wrote + r * pages, pages * sizeof *a->wrote};
  out[3] = (part){a->left + r * pages, pages * sizeof *a->left};
  out[4] = (part){a->tables + r, sizeof *a->tables};
  size_t regular = a->asked->layout->task ? points * (size_t)a->ranks : 0;
  out[5] = (part){a->regular + r * regular, regular * sizeof *a->regular};
}

void kv_layouts_layer_begin(kv_layouts *l, int layer) {
  for (int i = 0; i < l->n; i++) {
    part p[PARTS];
    parts_of(l, &l->of[i], layer, p);
    for (int j = 0; j < PARTS; j++) memset(p[j].at, 0, p[j].size);
  }
}

void kv_layouts_layer_copy(kv_layouts *l, int layer, kv_copier *x) {
  assert(l->rows == l->layers && "layers are held apart");
  for (int i = 0; i < l->n; i++) {
    part p[PARTS];
    parts_of(l, &l->of[i], layer, p);
    for (int j = 0; j < PARTS; j++) kv_copy(x, p[j].at, p[j].size);
  }
}

int64_t kv_layouts_name(const kv_layouts *l) {
  uint64_t x =
      1469598103934665603u; /* FNV-1a of the names, each with its NUL */
  for (int i = 0; i < l->n; i++)
    for (const char *c = l->of[i].asked->name;; c++) {
      x = (x ^ (uint8_t)*c) * 1099511628211u;
      if (!*c) break;
    }
  return (int64_t)(x >> 1);
}

/* --- flight -------------------------------------------------------------- */

struct kv_layouts_flight {
  kv_layouts *of;
  int layer, block, step, lanes;
  kv_replica *replica;             /* [lanes] */
  kv_layout_state **state;         /* [of->n] */
  kv_layout_state *before;         /* [of->n] its state before compression */
  int64_t row[KV_SIDES][KV_SLABS]; /* bytes */
  int64_t vacated;                 /* in this block */
  kv_rows_listener listener;
  kv_err fault; /* rc 0: none */
};

/* --- rows --------------------------------------------------------------- */

static void write_row(void *self, int lane, int side, int format,
                      int32_t place) {
  const kv_layouts_flight *f = self;
  for (int i = 0; i < f->of->n; i++)
    f->of->of[i].asked->layout->write(f->state[i], lane, side, format, place);
}

static void leave_row(void *self, int lane, int side, int format,
                      int32_t place) {
  kv_layouts_flight *f = self;
  f->vacated += f->row[side][format];
  for (int i = 0; i < f->of->n; i++)
    f->of->of[i].asked->layout->leave(f->state[i], lane, side, format, place);
}

static void retier(void *self, int lane, int32_t place, int to) {
  const kv_layouts_flight *f = self;
  for (int i = 0; i < f->of->n; i++) {
    const kv_layout *layout = f->of->of[i].asked->layout;
    if (layout->retier) layout->retier(f->state[i], lane, place, to);
  }
}

/* --- life --------------------------------------------------------------- */

void kv_layouts_flight_close(kv_layouts_flight *f) {
  if (!f) return;
  for (int i = 0; f->state && i < f->of->n; i++)
    f->of->of[i].asked->layout->close(f->state[i]);
  for (int i = 0; f->replica && i < f->lanes; i++)
    kv_replica_close(&f->replica[i]);
  free(f->replica);
  free(f->state);
  free(f->before);
  free(f);
}

static kv_rc open_parts(kv_layouts_flight *f, kv_err *e) {
  const kv_layouts *l = f->of;
  const kv_layout_room room = {l->shape, l->needs, l->lanes, l->layers,
                               l->points};
  kv_rc rc = KV_OK;
  f->replica = kv_zalloc((size_t)l->lanes, sizeof *f->replica);
  f->state = kv_zalloc((size_t)l->n, sizeof *f->state);
  f->before = kv_zalloc((size_t)l->n, sizeof *f->before);
  if (!f->replica || !f->state || !f->before)
    rc = kv_no_memory(e, "layouts", (size_t)l->lanes * sizeof *f->replica);
  for (int i = 0; !rc && i < l->lanes; i++, f->lanes++)
    rc = kv_replica_open(l->shape->n_tokens, l->needs->codings, &f->replica[i],
                         e);
  for (int i = 0; !rc && i < l->n; i++)
    rc = l->of[i].asked->layout->open(l->of[i].asked, &room, &f->state[i], e);
  return rc;
}

kv_rc kv_layouts_flight_open(kv_layouts *l, kv_layouts_flight **out,
                             kv_err *e) {
  kv_layouts_flight *f = kv_zalloc(1, sizeof *f);
  *out = NULL;
  if (!f) return kv_no_memory(e, "layouts", sizeof *f);
  f->of = l;
  f->listener = (kv_rows_listener){f, write_row, leave_row, retier};
  for (int side = 0; side < KV_SIDES; side++)
    for (int i = 0; i < KV_CODED + l->needs->codings; i++)
      f->row[side][i] = (int64_t)kv_row_bytes(l->shape, l->needs, side, i);
  kv_rc rc = open_parts(f, e);
  if (rc)
    kv_layouts_flight_close(f);
  else
    *out = f;
  return rc;
}

void kv_layouts_flight_begin(kv_layouts_flight *f, int layer) {
  f->layer = layer;
  f->fault = (kv_err){0};
  for (int i = 0; i < f->lanes; i++)
    kv_replica_begin(&f->replica[i], i, &f->listener);
  for (int i = 0; i < f->of->n; i++)
    f->of->of[i].asked->layout->begin(f->state[i]);
}

/* --- a block ------------------------------------------------------------ */

void kv_layouts_flight_enter(kv_layouts_flight *f, int block, int step) {
  f->block = block;
  f->step = step;
  f->vacated = 0;
  for (int i = 0; i < f->of->n; i++) f->state[i]->block = block;
  for (int i = 0; i < f->lanes; i++) kv_replica_enter(&f->replica[i], step);
  for (int i = 0; i < f->of->n; i++) {
    const kv_layout *layout = f->of->of[i].asked->layout;
    if (layout->entered) layout->entered(f->state[i], step);
    f->before[i] = *f->state[i];
  }
}

void kv_layouts_flight_follow(kv_layouts_flight *f, const kv_lane *lane) {
  assert(lane->lane < f->lanes && "lanes are numbered as in the layer");
  if (!f->fault.rc) kv_replica_follow(&f->replica[lane->lane], lane, &f->fault);
}

static void tell_compressed(kv_layouts_flight *f) {
  for (int i = 0; i < f->of->n && !f->fault.rc; i++) {
    const kv_layout *layout = f->of->of[i].asked->layout;
    if (layout->compressed)
      layout->compressed(f->state[i], f->step, f->replica);
  }
}

/* Each layer writes to its own part. */
static void record(const kv_layouts_flight *f, const kv_layout_account *a,
                   const kv_layout_state *s, int64_t moved) {
  size_t at = (size_t)f->layer * (size_t)f->of->points + (size_t)f->block;
  size_t lanes = (size_t)f->lanes;
  memcpy(a->count + at * lanes, s->count, lanes * sizeof *s->count);
  a->moved[at] = moved;
}

static void add_regular(kv_layout_regular *to, const kv_regular_layer *s) {
  kv_counter_add(&to->kept, s->kept);
  kv_counter_raise(&to->fullest, s->fullest);
  kv_counter_add(&to->longest, s->fullest);
  kv_counter_add(&to->joined, s->joined);
  kv_counter_raise(&to->widest, s->joined);
  kv_counter_add(&to->stored, s->stored);
  kv_counter_add(&to->masked, s->masked);
  kv_counter_add(&to->vacated, s->vacated);
  if (!s->changed) return;
  kv_counter_add(&to->changed, 1);
  kv_counter_add(&to->changed_kept, s->kept);
  kv_counter_add(&to->changed_joined, s->joined);
}

void kv_layouts_flight_close_block(kv_layouts_flight *f) {
  const kv_layouts *l = f->of;
  int row = layouts_row(l, f->layer);
  tell_compressed(f);
  for (int i = 0; i < l->n; i++) {
    const kv_layout_account *a = &l->of[i];
    const kv_layout_state *s = f->state[i], *was = &f->before[i];
    kv_layout_block *b = kv_layout_block_of(l, a, row, f->block);
    kv_counter_add(&b->vacated, f->vacated);
    kv_counter_add(&b->pages, s->pages);
    kv_counter_add(&b->bytes, s->bytes);
    kv_counter_add(&b->unused, s->unused);
    for (int k = 0; k < a->ranks && s->regular; k++)
      add_regular(kv_layout_regular_of(l, a, row, f->block, k), &s->regular[k]);
    if (a->count) record(f, a, s, s->moved - was->moved);
    kv_counter_raise(&b->more_pages,
                     kv_larger(was->pages, s->most_pages) - s->pages);
    kv_counter_raise(&b->more_bytes,
                     kv_larger(was->bytes, s->most_bytes) - s->bytes);
    kv_layout_bits *held = kv_layout_bits_of(l, a, row, f->block);
    for (size_t w = 0; w < a->words; w++)
      atomic_fetch_or_explicit(&held[w], s->held[w], memory_order_relaxed);
  }
}

kv_rc kv_layouts_flight_end(kv_layouts_flight *f, kv_err *e) {
  const kv_layouts *l = f->of;
  int row = layouts_row(l, f->layer);
  if (f->fault.rc) return kv_fail(e, KV_INTERNAL, "%s", f->fault.text);
  for (int i = 0; i < l->n; i++) {
    const kv_layout_account *a = &l->of[i];
    const kv_layout *layout = a->asked->layout;
    kv_layout_state *s = f->state[i];
    if (s->fault) return kv_fail(e, KV_USAGE, "%s", s->fault);
    if (layout->end) layout->end(s);
    if (!layout->sound(s))
      return kv_fail(
          e, KV_INTERNAL,
          "layout %s: its counts do not add up; please report the command",
          a->asked->name);
    for (int b = 0; b < l->points; b++)
      kv_counter_add(&kv_layout_block_of(l, a, row, b)->freed, s->freed[b]);
    kv_layout_tables *t = &a->tables[row];
    kv_counter_add(&t->moved, s->moved);
    kv_counter_add(&t->operations, s->operations);
    kv_counter_add(&t->entries, s->entries);
    if (a->tier)
      memcpy(a->tier + f->layer * KV_TIERS, s->tier,
             KV_TIERS * sizeof *s->tier);
    size_t pages = (size_t)a->shared.pages, first = (size_t)row * pages;
    for (size_t p = 0; p < pages; p++) {
      kv_counter_add(&a->wrote[first + p], s->wrote[p]);
      kv_counter_raise(&a->left[first + p], s->left[p]);
    }
  }
  return KV_OK;
}

/* --- total --------------------------------------------------------------- */

/* Sums of a block over all layers. */
typedef struct sums {
  int64_t pages, bytes, freed, vacated, unused;
  int64_t most_pages, most_bytes; /* before the last layer was compressed */
} sums;

/* For layers with their own pages, which compress one after another. */
static sums sum_own(const kv_layouts *l, const kv_layout_account *a, int b) {
  sums s = {0};
  int64_t more_pages = 0, more_bytes = 0;
  for (int r = 0; r < l->rows; r++) {
    const kv_layout_block *at = kv_layout_block_of(l, a, r, b);
    s.pages += kv_counter_get(&at->pages);
    s.bytes += kv_counter_get(&at->bytes);
    s.freed += kv_counter_get(&at->freed);
    s.vacated += kv_counter_get(&at->vacated);
    s.unused += kv_counter_get(&at->unused);
    more_pages = kv_larger(more_pages, kv_counter_get(&at->more_pages));
    more_bytes = kv_larger(more_bytes, kv_counter_get(&at->more_bytes));
  }
  s.most_pages = s.pages + more_pages;
  s.most_bytes = s.bytes + more_bytes;
  return s;
}

/* --- pages shared by all layers ------------------------------------------ */

/* Scratch: pages held after a block, and while its layers compress. */
typedef struct marks {
  uint64_t *now, *most;
} marks;

static void join(const kv_layouts *l, const kv_layout_account *a, int b,
                 uint64_t *to) {
  for (int r = 0; r < l->rows; r++) {
    const kv_layout_bits *held = kv_layout_bits_of(l, a, r, b);
    for (size_t w = 0; w < a->words; w++)
      to[w] |= atomic_load_explicit(&held[w], memory_order_relaxed);
  }
}

/* Marks the raw pages that the block's tokens entered. */
static void mark_entered(const kv_layouts *l, const kv_layout_account *a, int b,
                         uint64_t *to) {
  int first = b ? kv_layouts_seen(l, b - 1) : 0, n = a->asked->page;
  int last = kv_layouts_seen(l, b) - 1;
  for (int side = 0; side < KV_SIDES; side++)
    for (int p = first / n; p <= last / n; p++) {
      int at = a->shared.raw[side] * a->shared.per_pool + p;
      to[at / 64] |= 1ull << at % 64;
    }
}

static void count(const kv_layout_account *a, const uint64_t *mark,
                  int64_t *pages, int64_t *bytes) {
  *pages = *bytes = 0;
  for (size_t w = 0; w < a->words; w++)
    for (uint64_t left = mark[w]; left; left &= left - 1) {
      int page = (int)(64 * w) + __builtin_ctzll(left);
      ++*pages;
      *bytes += a->shared.bytes[page / a->shared.per_pool];
    }
}

/* For shared pages. A page becomes free when the last layer has left it. So
 * while layers compress, all pages are held that were held before, plus those
 * that tokens entered. */
static sums sum_shared(const kv_layouts *l, const kv_layout_account *a, int b,
                       const marks *m) {
  size_t bytes = a->words * sizeof *m->now;
  sums s = sum_own(l, a, b);
  memset(m->now, 0, bytes);
  join(l, a, b, m->now);
  memcpy(m->most, m->now, bytes);
  if (b) join(l, a, b - 1, m->most);
  mark_entered(l, a, b, m->most);
  count(a, m->now, &s.pages, &s.bytes);
  count(a, m->most, &s.most_pages, &s.most_bytes);
  return s;
}

/* Adds the bytes of rows in shared pages that became free, by the block since
 * which they are free. */
static void free_shared(const kv_layouts *l, const kv_layout_account *a,
                        const marks *m, int64_t *freed) {
  size_t pages = (size_t)a->shared.pages;
  memset(freed, 0, (size_t)l->points * sizeof *freed);
  memset(m->now, 0, a->words * sizeof *m->now);
  join(l, a, l->points - 1, m->now);
  for (size_t p = 0; p < pages; p++) {
    int64_t wrote = 0, left = 0;
    if (m->now[p / 64] >> p % 64 & 1) continue;
    for (size_t r = 0; r < (size_t)l->rows; r++) {
      wrote += kv_counter_get(&a->wrote[r * pages + p]);
      left = kv_larger(left, kv_counter_get(&a->left[r * pages + p]));
    }
    freed[left] += wrote * a->shared.row[p / (size_t)a->shared.per_pool];
  }
}

/* --- a row -------------------------------------------------------------- */

void kv_layouts_take_step(kv_layout_result *r, int64_t pages, int64_t bytes,
                          int64_t slack, kv_layout_step *step) {
  r->pages_end = step->pages = pages;
  r->end = step->bytes = bytes;
  r->slack_end = step->slack = slack;
  r->slack_peak = kv_larger(r->slack_peak, slack);
  r->pages_mean += (double)pages; /* sums, exact below 2^53 */
  r->mean += (double)bytes;
  r->slack_mean += (double)slack;
  step->vacated = r->vacated;
  step->freed = r->freed;
}

static void take_tables(kv_layout_table_result *t, int64_t unused) {
  t->unused_end = unused;
  t->unused_peak = kv_larger(t->unused_peak, unused);
}

/* Adds one block; step NULL: a block of the prompt, of which the row records
 * only the peak and the bytes freed. */
static void take(kv_layout_result *r, const sums *s, int64_t payload,
                 kv_layout_step *step) {
  r->vacated += s->vacated;
  r->freed += s->freed;
  r->pages_peak = kv_larger(r->pages_peak, s->most_pages);
  r->peak = kv_larger(r->peak, s->most_bytes);
  if (!step) return;
  if (r->tables.there) take_tables(&r->tables, s->unused);
  kv_layouts_take_step(r, s->pages, s->bytes, s->bytes - payload, step);
}

/* Bytes of the tables after a block; -1: there are none, or masks instead. */
static void take_map(const kv_layouts *l, const kv_layout_account *a, int b,
                     int64_t pages, kv_layout_result *r) {
  const kv_layout_room room = {l->shape, l->needs, l->lanes, l->layers,
                               l->points};
  r->map_end = -1;
  if (r->tables.there) r->map_end = KV_MAP_ENTRY * r->tables.entries;
  if (a->asked->layout->map)
    r->map_end =
        a->asked->layout->map(a->asked, &room, kv_layouts_seen(l, b), pages);
  r->map_peak = kv_larger(r->map_peak, r->map_end);
}

static void finish(const kv_layouts *l, const kv_layout_account *a,
                   const marks *m, int64_t *freed, const kv_result *of,
                   kv_layout_result *r) {
  r->map_end = r->map_peak = -1;
  if (a->asked->layout->task) {
    kv_layouts_regular(l, a, (uint64_t *[]){m->now, m->most}, of, r);
    return;
  }
  if (a->words) free_shared(l, a, m, freed);
  r->tables.there = kv_layout_tabled(a->asked->layout);
  for (int i = 0; i < l->rows && r->tables.there; i++) {
    r->tables.moved += kv_counter_get(&a->tables[i].moved);
    r->tables.operations += kv_counter_get(&a->tables[i].operations);
    r->tables.entries += kv_counter_get(&a->tables[i].entries);
  }
  for (int b = 0; b < l->points; b++) {
    int i = b - (l->blocks - 1);
    sums s = a->words ? sum_shared(l, a, b, m) : sum_own(l, a, b);
    if (a->words) s.freed = freed[b];
    if (i >= 0) r->step[i].step = of->step[i].step;
    int64_t payload = i < 0 ? s.bytes : of->step[i].codes;
    take(r, &s, payload, i < 0 ? NULL : &r->step[i]);
    take_map(l, a, b, s.pages, r);
    if (a->point)
      a->point[b] =
          (kv_layout_point){s.most_bytes, s.bytes, payload, r->map_end};
  }
}

/* Clears all but the name: a database may have filled in numbers before. */
static void begin(kv_layout_result *r) {
  kv_layout_result empty = {0};
  memcpy(empty.name, r->name, sizeof empty.name);
  free(r->step);
  *r = empty;
}

kv_rc kv_layouts_finish(const kv_layouts *l, kv_result *r, kv_err *e) {
  int64_t *freed = kv_zalloc((size_t)l->points, sizeof *freed);
  size_t steps = (size_t)(l->points - l->blocks + 1);
  kv_rc rc = KV_OK;
  if (!freed) rc = kv_no_memory(e, "layouts", (size_t)l->points);
  for (int i = 0; !rc && i < l->n; i++) {
    const kv_layout_account *a = &l->of[i];
    kv_layout_result *to = &r->layout[i];
    begin(to);
    marks m = {kv_zalloc(a->words, 8), kv_zalloc(a->words, 8)};
    to->step = kv_zalloc(steps, sizeof *to->step);
    to->n_steps = (int)steps;
    if (m.now && m.most && to->step) {
      finish(l, a, &m, freed, r, to);
      to->pages_mean /= (double)steps;
      to->mean /= (double)steps;
      to->slack_mean /= (double)steps;
    } else
      rc = kv_no_memory(e, "the steps of a layout", steps * sizeof *to->step);
    free(m.now);
    free(m.most);
  }
  free(freed);
  return rc;
}

kv_layout_record kv_layouts_recorded(const kv_layouts *l) {
  const kv_layout_account *a = l->of, *end = l->of + l->n;
  while (a < end && !a->asked->record) a++;
  if (a == end) return (kv_layout_record){.layouts = l};
  return (kv_layout_record){.layouts = l,
                            .asked = a->asked,
                            .shape = l->shape,
                            .layers = l->layers,
                            .lanes = l->lanes,
                            .blocks = l->blocks,
                            .points = l->points,
                            .count = a->count,
                            .moved = a->moved,
                            .tier = a->tier,
                            .point = a->point};
}
