/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a store in regular indices: gpu/host/indexed.h.
 */
#include "gpu/host/indexed.h"
#include <stdlib.h>
#include <string.h>

/* --- memory --------------------------------------------------------------- */

static bool suits(const kv_store *s) {
  const kv_needs *need = &s->plan->needs;
  return s->plan->indices && !need->merges && !need->codings && !need->reindex;
}

void kv_gpu_indexed_take(kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  if (s->fault.rc || !suits(s)) return;
  int room = kv_gpu_pages(shape->n_tokens) * KV_GPU_PAGE;
  struct kv_gpu_indexed *x = kv_zalloc(1, sizeof *x);
  if (!x) {
    kv_no_memory(&s->fault, "regular indices", sizeof *x);
    return;
  }
  s->indexed = x;
  x->how = s->plan->indices;
  x->any = kv_zalloc((size_t)shape->n_tokens, sizeof *x->any);
  if (!x->any) {
    kv_no_memory(&s->fault, "regular indices", (size_t)shape->n_tokens);
    return;
  }
  kv_gpu_regular_open(s->device, shape, s->lanes, room,
                      x->how == KV_INDICES_SHARED, &x->store, &s->fault);
}

void kv_gpu_indexed_give(kv_store *s) {
  if (!s->indexed) return;
  kv_gpu_regular_close(&s->indexed->store);
  free(s->indexed->any);
  free(s->indexed);
}

void kv_gpu_indexed_pages(kv_store *s) {
  if (!s->indexed) return;
  const kv_gpu_regular *r = &s->indexed->store.r;
  int most = kv_gpu_pages(s->plan->shape->n_tokens);
  for (int i = 0; i < 2 * s->lanes; i++) {
    kv_gpu_lane *l = &s->head[i / 2];
    kv_gpu_raw *pool = i % 2 ? &l->v_raw : &l->k_raw;
    char *side = i % 2 ? r->half[0].v : r->half[0].k;
    side += (size_t)(i / 2) * (size_t)r->room * pool->size;
    for (int p = 0; p < most; p++)
      s->page[i * most + p] = side + (size_t)p * KV_GPU_PAGE * pool->size;
    s->pages[i] = most;
    pool->fixed = 1;
  }
}

static size_t pages_bytes(const kv_store *s) {
  return 2 * (size_t)s->lanes * (size_t)kv_gpu_pages(s->plan->shape->n_tokens) *
         sizeof *s->page;
}

void kv_gpu_indexed_begin(kv_store *s) {
  struct kv_gpu_indexed *x = s->indexed;
  if (!x) return;
  const kv_gpu_regular *r = &x->store.r;
  size_t lanes = (size_t)s->lanes;
  x->in_order = x->alike = true;
  x->store.r.entries = s->own_views;
  s->device->clear(r->which, sizeof *r->which);
  for (int i = 0; i < KV_GPU_STORES; i++) {
    const kv_gpu_regular_half *h = &r->half[i];
    s->device->clear(h->taken, lanes * sizeof *h->taken);
    s->device->clear(h->mask, kv_gpu_regular_masks(r, s->lanes));
  }
  s->device->put(s->paged, s->page, pages_bytes(s));
}

bool kv_gpu_indexed_walked(const kv_store *s) {
  return s->indexed && s->indexed->in_order && s->indexed->alike &&
         (!s->own_views || s->plan->needs.unread);
}

/* --- steps ---------------------------------------------------------------- */

static void act(const kv_store *s, kv_gpu_regular_act what, void *stream) {
  s->device->regular(stream, &s->layer, &s->indexed->store.r, (int)what);
}

void kv_gpu_seq_indexed_enter(const kv_store *s, void *stream) {
  if (s->indexed) act(s, KV_GPU_REGULAR_ENTER, stream);
}

void kv_gpu_seq_indexed_compressed(const kv_store *s, void *stream) {
  if (s->indexed) act(s, KV_GPU_REGULAR_READ, stream);
}

/* Tokens that any lane of the layer holds. */
static int joined(const kv_store *s) {
  bool *any = s->indexed->any;
  int n = 0;
  memset(any, 0, (size_t)s->plan->shape->n_tokens * sizeof *any);
  for (int i = 0; i < s->lanes; i++)
    for (int j = 0; j < s->mirror[i].n; j++) any[s->mirror[i].id[j]] = true;
  for (int t = 0; t < s->end; t++) n += any[t];
  return n;
}

/* Has a lane places whose entries have gone, or all of them at once? Places
 * that it has after a rewrite: its own entries, or `all`. */
static bool has_lost(const kv_store *s, int all) {
  bool lost = false;
  for (int i = 0; i < s->lanes; i++)
    lost = lost || (all ? all : s->head[i].n) < s->head[i].k_raw.used;
  return lost;
}

/* Also tells the host's copies of the lanes what the device does. */
static void rewrite(kv_store *s, int all) {
  void *stream = s->device->stream();
  act(s, KV_GPU_REGULAR_HELD, stream);
  if (all) act(s, KV_GPU_REGULAR_JOIN, stream);
  act(s, KV_GPU_REGULAR_REWRITE, stream);
  act(s, KV_GPU_REGULAR_FOLLOW, stream);
  act(s, KV_GPU_REGULAR_READ, stream);
  for (int i = 0; i < s->lanes; i++) {
    kv_gpu_lane *l = &s->head[i];
    l->k_raw.used = l->v_raw.used = all ? all : l->n;
    l->k_raw.n_free = l->v_raw.n_free = 0;
  }
}

static bool ascends(const kv_lane *l) {
  bool up = true;
  for (int i = 1; i < l->n; i++) up = up && l->id[i - 1] < l->id[i];
  return up;
}

static bool is_read(const kv_store *s, const kv_lane *l, int i) {
  return !(s->plan->needs.unread >> kv_class_of(l, i) & 1);
}

/* Do both lanes read the same entries? */
static bool alike(const kv_store *s, const kv_lane *a, const kv_lane *b) {
  int i = 0, j = 0;
  for (;; i++, j++) {
    while (i < a->n && !is_read(s, a, i)) i++;
    while (j < b->n && !is_read(s, b, j)) j++;
    if (i == a->n || j == b->n) return i == a->n && j == b->n;
    if (a->id[i] != b->id[j]) return false;
  }
}

void kv_gpu_indexed_compressed(kv_store *s) {
  struct kv_gpu_indexed *x = s->indexed;
  if (!x || kv_gpu_lost(s)) return;
  int all = x->how == KV_INDICES_JOINED ? joined(s) : 0;
  bool masked = x->how == KV_INDICES_MASKED || x->how == KV_INDICES_SHARED;
  if (!masked && has_lost(s, all)) rewrite(s, all);
  bool was = kv_gpu_indexed_walked(s);
  x->alike = true;
  for (int i = 1; i < s->lanes && x->how == KV_INDICES_SHARED; i++)
    x->alike = x->alike && alike(s, &s->mirror[0], &s->mirror[i]);
  for (int i = 0; i < s->lanes && x->in_order; i++)
    x->in_order = ascends(&s->mirror[i]);
  if (was != kv_gpu_indexed_walked(s)) kv_gpu_forget(s);
}
