/* SPDX-License-Identifier: Apache-2.0
 *
 * Summing up the account of a layout for a row of results: sums over layers,
 * block by block, divided once at the end.
 */
#include "sim/layout/layouts_part.h"

#include <stdlib.h>
#include <string.h>

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

/* --- pages that all layers share ------------------------------------------ */

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

/* For shared pages. One becomes free when the last layer has left it, so while
 * layers compress all pages are held that were held before, plus those that
 * tokens entered. */
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

/* Adds the bytes of rows in shared pages, by the block since which the page is
 * free. */
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

/* Adds one block; step NULL: one of the prompt's, of which the row has only
 * the peak and what was freed. */
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

/* Tables after a block; -1: a mask says what counts, or nothing has to. */
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

/* Clears everything except the name: a database may have filled numbers before.
 */
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
