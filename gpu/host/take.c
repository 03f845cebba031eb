/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocates all device memory of a store when it opens. Contract:
 * gpu/host/store.h.
 */
#include "gpu/host/indexed.h"
#include "gpu/host/rebuilt.h"
#include "gpu/host/tiers.h"
#include <stdlib.h>

enum { SPARE_MOST = 1 << 23 };

static void *room(kv_store *s, size_t n) { return kv_gpu_take_room(s, n); }

/* --- lanes -------------------------------------------------------------- */

/* A coding's settings, put on the device once for all lanes. */
static const void *settings_of(kv_store *s, const kv_coding *c) {
  void **at = &s->settings[c - s->plan->needs.coding];
  if (!*at && (*at = room(s, c->format->settings_size)))
    s->device->put(*at, c->settings, c->format->settings_size);
  return *at;
}

static void take_slab(kv_store *s, const kv_gpu_in_pages *in, kv_gpu_slab *to,
                      const kv_slab *from) {
  const kv_coding *c = from->coding;
  size_t n = (size_t)from->cap;
  *to =
      (kv_gpu_slab){.size = from->size, .width = from->width, .cap = from->cap};
  to->type = (int)from->type;
  if (c) {
    to->metadata_size =
        c->format->size(c->settings, kv_coding_members(c), from->width)
            .metadata;
    to->format = s->device->format(c->format->name);
    if (c->format->layered) to->part = from->part, to->parts = from->parts;
    to->settings = settings_of(s, c);
    if (c->pre_rope)
      to->pre_rope =
          s->plan->rope->interleaved ? KV_GPU_INTERLEAVED : KV_GPU_HALVES;
  }
  if (!n) return; /* the coding is for the other side */
  to->free = room(s, n * sizeof *to->free);
  to->members = room(s, n * sizeof *to->members);
  to->live = room(s, n * sizeof *to->live);
  to->in = *in;
  if (!in->pages) to->data = room(s, n * from->size);
  to->fresh = room(s, n * sizeof *to->fresh);
}

static void take_rewriting(kv_store *s, kv_gpu_lane *l, const kv_lane *m) {
  if (!m->k || !s->log) return;
  size_t before = (size_t)l->lane * s->log->cap;
  l->cap_log = (int)s->log->cap;
  l->log_id = s->log->id + before;
  l->log = s->log->row + before * s->log->width;
  for (int f = KV_MERGED; f < KV_CODED + s->plan->needs.codings; f++) {
    if (!m->k_slab[f].cap && !m->v_slab[f].cap) continue;
    for (int side = 0; side < KV_SIDES; side++) {
      kv_gpu_in_pages in = kv_gpu_tiers_of(s, l->lane, side, f);
      take_slab(s, &in, side == KV_SIDE_K ? &l->k_slab[f] : &l->v_slab[f],
                side == KV_SIDE_K ? &m->k_slab[f] : &m->v_slab[f]);
    }
  }
}

static void take_lane(kv_store *s, int i) {
  const kv_needs *need = &s->plan->needs;
  const kv_lane *m = &s->mirror[i];
  kv_gpu_lane *l = &s->head[i];
  size_t t = (size_t)s->plan->shape->n_tokens;
  *l = (kv_gpu_lane){.lane = i,
                     .kv_head = m->kv_head,
                     .first_head = m->first_head,
                     .queries = m->queries,
                     .cap_verbs = (int)m->verbs.cap,
                     .work_size = KV_WORK(t) + need->work};
  l->id = room(s, t * sizeof *l->id);
  l->weight = room(s, t * sizeof *l->weight);
  l->k = room(s, t * sizeof *l->k);
  l->v = room(s, t * sizeof *l->v);
  if (need->classes > 1) l->tier = room(s, (t + 3) / 4 * 4);
  for (int c = 0; c < need->columns; c++)
    l->column[c].i = room(s, t * sizeof *l->column[c].i);
  if (need->merges) {
    l->last = room(s, t * sizeof *l->last);
    l->next = room(s, t * sizeof *l->next);
    l->joined = room(s, t * sizeof *l->joined);
  }
  if (need->future) l->future = room(s, t * sizeof *l->future);
  take_rewriting(s, l, m);
  if (s->own) l->own = s->own + (size_t)i * s->own_size;
  if (s->device->near && l->own) { /* read in place */
    free(s->mirror[i].own);
    s->mirror[i].own = l->own;
  }
  l->verbs = room(s, (size_t)l->cap_verbs * sizeof *l->verbs);
  l->list = room(s, t * sizeof *l->list);
  l->spare = room(s, t * sizeof *l->spare);
  l->work = room(s, l->work_size);
}

/* --- the layer ---------------------------------------------------------- */

/* True if one of the methods on the lanes adds a chunk of its own; at most one
 * does. */
static bool any_chunk(const kv_store *s) {
  bool any = false;
  for (int i = 0; i < s->parts; i++) any |= s->hooks[i]->chunk != NULL;
  return any;
}

static void take_layer(kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  kv_gpu_layer *l = &s->layer;
  size_t heads = (size_t)shape->n_heads, stride = (size_t)l->stride;
  size_t rows = (size_t)s->tile_rows, d_v = (size_t)shape->d_v;
  size_t chunks = (size_t)l->chunks, places = heads * stride;
  void *params = room(s, s->plan->method->params_size);
  if (params && s->plan->method->params_size)
    s->device->put(params, s->plan->params, s->plan->method->params_size);
  l->params = params;
  l->lane = room(s, (size_t)s->lanes * sizeof *l->lane);
  l->clock = room(s, sizeof *l->clock);
  l->q = room(s, rows * heads * (size_t)shape->d * sizeof *l->q);
  l->s = room(s, rows * places * sizeof *l->s);
  l->p = room(s, rows * places * sizeof *l->p);
  l->sum = room(s, places * sizeof *l->sum);
  l->mask = room(s, places);
  l->place = room(s, places * sizeof *l->place);
  l->run = room(s, heads * (stride / 2 + 1) * sizeof *l->run);
  l->runs = room(s, heads * sizeof *l->runs);
  l->entries = room(s, heads * sizeof *l->entries);
  l->top = room(s, heads * chunks * sizeof *l->top);
  l->mass = room(s, heads * chunks * sizeof *l->mass);
  l->part = room(s, heads * chunks * d_v * sizeof *l->part);
  if (any_chunk(s)) {
    l->more = room(s, heads * 2 * sizeof *l->more);
    l->more_a = room(s, heads * d_v * sizeof *l->more_a);
  }
  if (s->hooks[0]->view && s->plan->needs.codings && s->queries > 1 &&
      !kv_gpu_rebuilt_suits(s))
    l->materialised = room(s, (size_t)s->lanes * (size_t)shape->n_tokens * d_v *
                                  sizeof *l->materialised);
  l->out = room(s, heads * (d_v + 1) * sizeof *l->out);
  s->sinks = room(s, heads * sizeof *s->sinks);
  if (s->plan->needs.message > 0) {
    l->above = room(s, sizeof *l->above + s->plan->needs.message);
    l->message = room(s, sizeof *l->message + s->plan->needs.message);
  }
  l->bad = room(s, (size_t)s->lanes * sizeof *l->bad);
  s->own_size = (s->plan->needs.lane_state + 255) / 256 * 256;
  if (s->own_size) s->own = room(s, (size_t)s->lanes * s->own_size);
}

/* --- the method's file -------------------------------------------------- */

/* Elements of the i-th tensor in the layer in which it is largest. */
static size_t most_of(const kv_asset *a, int i) {
  int64_t most = 0;
  for (int l = 0; l < a->layers; l++) {
    int64_t n = a->tensor[l * a->asked + i].count;
    if (n > most) most = n;
  }
  return (size_t)most;
}

/* Room for one layer's tensors; those for all layers are uploaded once. */
static void take_asset(kv_store *s) {
  const kv_asset *a = s->plan->asset;
  if (!a) return;
  size_t n = (size_t)a->asked;
  s->asset = kv_zalloc(n + 1, sizeof *s->asset);
  if (!s->asset) kv_no_memory(&s->fault, "an asset", n * sizeof *s->asset);
  s->layer.asset = room(s, (n + 1) * sizeof *s->layer.asset);
  for (int i = 0; !s->fault.rc && i < a->asked; i++) {
    size_t bytes = most_of(a, i) * kv_tensor_size(a->ask[i].type);
    void *data = room(s, bytes);
    s->asset[i].data = data;
    if (data && a->tensor[i].data && !kv_tensor_layered(&a->ask[i]))
      s->device->put(data, a->tensor[i].data, bytes);
  }
}

/* --- the report --------------------------------------------------------- */

/* The most bytes of data of a step before its lanes are compressed. */
static size_t most_before(const kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  size_t heads = (size_t)shape->n_heads, t = (size_t)shape->n_tokens;
  size_t head = ((size_t)shape->d_v + 1) * 4 + 2 * sizeof(int32_t) +
                (t / 2 + 1) * sizeof(kv_run) +
                (s->layer.logits ? t * sizeof(float) : 0);
  size_t columns = (size_t)s->plan->needs.columns * t * sizeof(int64_t);
  return heads * head + (size_t)s->lanes * (sizeof *s->bad + columns) +
         kv_gpu_shows_bytes(s) + (size_t)s->layer.pieces * 16;
}

/* The usual bytes of lanes after compression; a prompt, and coding many rows,
 * have more. */
static size_t usual_after(const kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  size_t t = (size_t)shape->n_tokens, lane = sizeof(kv_gpu_lane) + 64 * t;
  if (s->layer.lane_pieces > KV_GPU_SAY_PLAIN)
    lane += (size_t)(shape->d + shape->d_v) * t;
  size_t all = (size_t)s->lanes * lane;
  return all < SPARE_MOST ? all : SPARE_MOST;
}

static void take_report(kv_store *s) {
  kv_gpu_layer *l = &s->layer;
  const kv_needs *need = &s->plan->needs;
  bool rewrites = need->merges || need->codings;
  l->lane_pieces = rewrites ? KV_GPU_SAY_ALL(need) : (int)KV_GPU_SAY_PLAIN;
  l->logits = s->plan->logits;
  l->stage[KV_GPU_SAY_VIEWS] = 0;
  l->stage[KV_GPU_SAY_COLUMNS] =
      KV_GPU_OF_VIEWS + KV_GPU_OF_HEAD * s->plan->shape->n_heads;
  l->stage[KV_GPU_SAY_SCORES] =
      l->stage[KV_GPU_SAY_COLUMNS] + KV_MAX_COLUMNS * s->lanes;
  l->stage[KV_GPU_SAY_LANES] = l->stage[KV_GPU_SAY_SCORES] +
                               (l->shown ? KV_GPU_OF_SCORES + s->lanes + 1 : 0);
  l->pieces =
      l->stage[KV_GPU_SAY_LANES] + KV_GPU_OF_LANES + l->lane_pieces * s->lanes;
  l->report_room = (most_before(s) + usual_after(s) + 255) / 256 * 256;
  size_t size = kv_gpu_report_data(l->pieces) + l->report_room;
  l->report = room(s, size);
  if (s->fault.rc) return;
  s->report = s->device->pin(size);
  if (!s->report) kv_gpu_none(s->device, &s->fault);
}

void kv_gpu_take_all(kv_store *s) {
  take_layer(s);
  take_asset(s);
  const kv_needs *need = &s->plan->needs;
  if (!s->fault.rc && (need->merges || need->codings))
    s->log = kv_gpu_log_open(s->device, s->opened, &s->fault);
  kv_gpu_tiers_take(s);
  kv_gpu_indexed_take(s);
  kv_gpu_rebuilt_take(s);
  for (int i = 0; !s->fault.rc && i < s->lanes; i++) take_lane(s, i);
  if (!s->fault.rc) kv_gpu_pages_take(s);
  if (!s->fault.rc) kv_gpu_indexed_pages(s);
  if (!s->fault.rc && s->plan->scores) kv_gpu_shows_take(s);
  if (!s->fault.rc) take_report(s);
}
