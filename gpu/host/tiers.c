/* SPDX-License-Identifier: Apache-2.0
 *
 * Coded rows of a store in unified pages: gpu/host/tiers.h.
 */
#include "gpu/host/tiers.h"
#include "ref/pages/pages.h"
#include <stdlib.h>

/* --- which rows ----------------------------------------------------------- */

/* The codings of each side, in their order: number t of K and number t of V
 * are a tier. */
typedef struct pairs {
  int n[KV_SIDES];
  const kv_coding *of[KV_SIDES][KV_MAX_CODINGS];
  int slab[KV_SIDES][KV_MAX_CODINGS];
} pairs;

static void add_pair(pairs *p, int side, const kv_coding *c, int slab) {
  int at = p->n[side]++;
  p->of[side][at] = c;
  p->slab[side][at] = slab;
}

/* False: rows of these formats cannot lie in pages. */
static bool find_pairs(const kv_needs *need, pairs *to) {
  *to = (pairs){0};
  for (int i = 0; i < need->codings; i++) {
    const kv_coding *c = &need->coding[i];
    if (kv_coding_members(c) > 1 || c->format->layered) return false;
    if (kv_codes_keys(c)) add_pair(to, KV_SIDE_K, c, KV_CODED + i);
    if (kv_codes_values(c)) add_pair(to, KV_SIDE_V, c, KV_CODED + i);
  }
  int n = to->n[KV_SIDE_K];
  return !need->merges && need->tiers <= KV_TIERS && n <= KV_TIERS &&
         n == to->n[KV_SIDE_V] && n >= 1;
}

static kv_gpu_paged_tier tier_of(const kv_store *s, const pairs *p, int t,
                                 int64_t page) {
  const int width[] = {s->plan->shape->d, s->plan->shape->d_v};
  kv_page_token token;
  kv_gpu_tier_side side[KV_SIDES];
  for (int i = 0; i < KV_SIDES; i++) {
    const kv_coding *c = p->of[i][t];
    kv_coded_size size = c->format->size(c->settings, 1, width[i]);
    token.codes[i] = (int64_t)size.codes;
    token.meta[i] = (int64_t)size.metadata;
    side[i] = (kv_gpu_tier_side){*(const kv_minmax *)c->settings, width[i],
                                 p->slab[i][t]};
  }
  return kv_gpu_paged_tier_of(page, &token, side);
}

/* The formats whose rows gpu/backend/paged.cu reads as they are. */
static bool is_walked(const pairs *p) {
  for (int side = 0; side < KV_SIDES; side++)
    for (int t = 0; t < p->n[side]; t++) {
      const kv_coding *c = p->of[side][t];
      int bits, run;
      if (!c->format->in_place ||
          !c->format->in_place(c->settings, &bits, &run) ||
          kv_coding_prepares(c))
        return false;
    }
  return true;
}

/* Fills in what the pages of the store are; false: rows stay in slabs. A tier
 * that is not there has the sides of the other. */
static bool suits(const kv_store *s, kv_gpu_paged *rows) {
  const kv_shape *shape = s->plan->shape;
  pairs p;
  if (!s->plan->paged || !find_pairs(&s->plan->needs, &p)) return false;
  rows->page = kv_page_bytes(shape->d, shape->d_v);
  rows->walked = is_walked(&p) && !s->plan->needs.reindex;
  if (!rows->page) return false;
  for (int t = 0; t < KV_TIERS; t++)
    rows->tier[t] = tier_of(s, &p, t < p.n[0] ? t : 0, rows->page);
  kv_gpu_paged_tier *high = &rows->tier[KV_HIGH], *low = &rows->tier[KV_LOW];
  if (!high->tokens || !low->tokens) return false;
  if (high->tokens > low->tokens) {
    kv_gpu_paged_tier other = *high;
    *high = *low;
    *low = other;
  }
  if (p.n[0] < KV_TIERS) low->tokens = 0;
  return true;
}

/* --- memory --------------------------------------------------------------- */

/* Pages that a lane's tiers may have: one more each, as a step reserves it
 * before it knows whether it needs it. */
static int32_t most_pages(const kv_store *s, const kv_gpu_paged *rows) {
  int32_t n = 0;
  for (int t = 0; t < KV_TIERS; t++) {
    const kv_gpu_paged_tier *tier = &rows->tier[t];
    const kv_slab *k = &s->mirror[0].k_slab[tier->side[KV_SIDE_K].slab];
    if (tier->tokens) n += kv_pages_for(k->cap, tier->tokens) + 1;
  }
  return n;
}

static kv_rc open_manager(kv_store *s, struct kv_gpu_tiers *t) {
  kv_gpu_paged *rows = &t->rows;
  kv_pages_shape shape = {
      KV_PAGES_CODE, 1,
      s->lanes,      s->lanes * rows->entries,
      rows->entries, {rows->tier[0].tokens, rows->tier[1].tokens}};
  return kv_gpu_unified_open(s->device, &shape, &t->u, &s->fault);
}

static void take_rows(kv_store *s, struct kv_gpu_tiers *t) {
  kv_gpu_paged *rows = &t->rows;
  size_t lanes = (size_t)s->lanes, entries = (size_t)rows->entries;
  rows->pool = kv_gpu_take_room(s, lanes * entries * (size_t)rows->page);
  rows->count = kv_gpu_take_room(s, lanes * sizeof *rows->count);
  rows->where = kv_gpu_take_room(s, lanes * KV_TIERS * (size_t)s->layer.stride *
                                        sizeof *rows->where);
  rows->table = t->u.p.table;
  rows->held = t->u.p.held;
  t->job = kv_gpu_take_room(s, KV_GPU_JOBS * sizeof *t->job);
  t->there = kv_gpu_take_room(s, sizeof *t->there);
  if (t->there) s->device->put(t->there, rows, sizeof *rows);
}

void kv_gpu_tiers_take(kv_store *s) {
  kv_gpu_paged rows = {0};
  if (s->fault.rc || !suits(s, &rows)) return;
  struct kv_gpu_tiers *t = kv_zalloc(1, sizeof *t);
  if (!t) {
    kv_no_memory(&s->fault, "tiers of pages", sizeof *t);
    return;
  }
  s->tiers = t;
  t->rows = rows;
  t->rows.entries = most_pages(s, &rows);
  if (!open_manager(s, t)) take_rows(s, t);
}

void kv_gpu_tiers_give(kv_store *s) {
  if (s->tiers) kv_gpu_unified_close(&s->tiers->u);
  free(s->tiers);
}

void kv_gpu_tiers_begin(kv_store *s) {
  struct kv_gpu_tiers *t = s->tiers;
  if (!t) return;
  kv_pages_job job[KV_GPU_JOBS] = {
      [KV_GPU_JOB_PROMPT] = {.phase = KV_PAGES_PROMPT,
                             .tokens = s->opened->shape->prompt_len},
      [KV_GPU_JOB_STEP] = {.phase = KV_PAGES_STEP, .count = t->rows.count},
      [KV_GPU_JOB_COMPRESSED] = {.phase = KV_PAGES_COMPRESSED,
                                 .count = t->rows.count}};
  if (!kv_gpu_unified_reset(&t->u, &s->fault))
    s->device->put(t->job, job, sizeof job);
}

kv_gpu_in_pages kv_gpu_tiers_of(const kv_store *s, int lane, int side,
                                int slab) {
  const struct kv_gpu_tiers *t = s->tiers;
  for (int i = 0; t && i < KV_TIERS; i++)
    if (t->rows.tier[i].tokens && t->rows.tier[i].side[side].slab == slab)
      return (kv_gpu_in_pages){t->there, lane, i, side};
  return (kv_gpu_in_pages){0};
}

bool kv_gpu_tiers_walked(const kv_store *s) {
  return s->tiers && s->tiers->rows.walked && !s->own_views;
}

/* --- steps ---------------------------------------------------------------- */

static void compact(const kv_store *s, kv_gpu_tiers_job which, void *stream) {
  kv_gpu_pages p = s->tiers->u.p;
  p.job = s->tiers->job + which;
  s->device->compact(stream, &p, 1);
}

static void count(const kv_store *s, kv_gpu_counting when, void *stream) {
  s->device->count(stream, &s->layer, &s->tiers->rows, (int)when);
}

/* Of a prompt that enters at once, lanes hold nothing yet. */
void kv_gpu_seq_reserve(const kv_store *s, void *stream) {
  bool prompt = kv_gpu_in_prompt(s);
  if (!s->tiers) return;
  if (prompt && s->clock.first == 0 && s->clock.count == s->shape.prompt_len) {
    compact(s, KV_GPU_JOB_PROMPT, stream);
    return;
  }
  count(s, prompt ? KV_GPU_COUNT_BLOCK : KV_GPU_COUNT_STEP, stream);
  compact(s, KV_GPU_JOB_STEP, stream);
}

void kv_gpu_seq_compressed(const kv_store *s, void *stream) {
  if (!s->tiers || !kv_gpu_in_prompt(s)) return;
  count(s, KV_GPU_COUNT_COMPRESSED, stream);
  compact(s, KV_GPU_JOB_COMPRESSED, stream);
}
