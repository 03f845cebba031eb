/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory of a store: all of it is taken when the store opens.
 * Contract: gpu/store.h.
 */
#include "gpu/store.h"
#include <stdlib.h>

enum { SPARE_MOST = 1 << 23 };

/* n zeroed bytes on the device, given back by close; NULL and s->fault. */
static void *room(kv_store *s, size_t n) {
  if (s->fault.rc) return NULL;
  if (s->n_taken == s->cap_taken) {
    int cap = s->cap_taken ? 2 * s->cap_taken : 64;
    void **more = realloc(s->taken, (size_t)cap * sizeof *more);
    if (!more) {
      kv_no_memory(&s->fault, "a list of device memory", (size_t)cap * 8);
      return NULL;
    }
    s->taken = more;
    s->cap_taken = cap;
  }
  void *p = kv_gpu_room(s->device, n, &s->fault);
  if (p) s->taken[s->n_taken++] = p;
  return p;
}

/* --- lanes -------------------------------------------------------------- */

static void take_slab(kv_store *s, kv_gpu_slab *to, const kv_slab *from) {
  const kv_coding *c = from->coding;
  size_t n = (size_t)from->cap;
  *to =
      (kv_gpu_slab){.size = from->size, .width = from->width, .cap = from->cap};
  if (c) {
    to->kind = c->format == &kv_format_channel ? KV_GPU_CHANNEL : KV_GPU_TOKEN;
    to->bits = c->bits;
    to->group = c->group;
    to->fp16_ops = c->fp16_ops;
  }
  to->free = room(s, n * sizeof *to->free);
  to->members = room(s, n * sizeof *to->members);
  to->live = room(s, n * sizeof *to->live);
  to->data = room(s, n * from->size);
  to->fresh = room(s, n * sizeof *to->fresh);
}

static void take_rewriting(kv_store *s, kv_gpu_lane *l, const kv_lane *m) {
  const kv_shape *shape = s->plan->shape;
  size_t t = (size_t)shape->n_tokens;
  if (!m->k) return;
  l->k = room(s, t * sizeof *l->k);
  l->v = room(s, t * sizeof *l->v);
  l->cap_log = (int)KV_GPU_LOG(t);
  l->log_id = room(s, (size_t)l->cap_log * sizeof *l->log_id);
  l->log = room(s, (size_t)l->cap_log * (size_t)(shape->d + shape->d_v) *
                       sizeof *l->log);
  for (int f = KV_MERGED; f < KV_CODED + s->plan->needs.codings; f++) {
    if (!m->k_slab[f].cap) continue;
    take_slab(s, &l->k_slab[f], &m->k_slab[f]);
    take_slab(s, &l->v_slab[f], &m->v_slab[f]);
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
  for (int c = 0; c < need->columns; c++)
    l->column[c].i = room(s, t * sizeof *l->column[c].i);
  if (need->merges) {
    l->last = room(s, t * sizeof *l->last);
    l->next = room(s, t * sizeof *l->next);
    l->joined = room(s, t * sizeof *l->joined);
  }
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
  l->out = room(s, heads * (d_v + 1) * sizeof *l->out);
  l->bad = room(s, (size_t)s->lanes * sizeof *l->bad);
  s->own_size = (s->plan->needs.lane_state + 255) / 256 * 256;
  if (s->own_size) s->own = room(s, (size_t)s->lanes * s->own_size);
}

/* --- decisions ---------------------------------------------------------- */

/* Room for the lists of the layer that has most. */
static void take_lists(kv_store *s, kv_lists *l, size_t at) {
  const kv_decisions *d = s->decisions;
  size_t steps = 0, starts = 0, items = 0;
  for (int i = 0; i < d->layers; i++) {
    const kv_lists *from = (const kv_lists *)((const char *)&d->layer[i] + at);
    size_t n = (size_t)from->steps * (size_t)from->heads;
    size_t m = from->start ? (size_t)from->start[n] : 0;
    if ((size_t)from->steps > steps) steps = (size_t)from->steps;
    if (n + 1 > starts) starts = n + 1;
    if (m > items) items = m;
  }
  l->step = room(s, steps * sizeof *l->step);
  l->start = room(s, starts * sizeof *l->start);
  l->item = room(s, items * sizeof *l->item);
}

static void take_decisions(kv_store *s) {
  s->decisions = kv_decisions_of(s->plan->method, s->plan->params);
  if (!s->decisions) return;
  take_lists(s, &s->layer.stored, offsetof(kv_decided, stored));
  take_lists(s, &s->layer.view, offsetof(kv_decided, view));
}

/* --- the report --------------------------------------------------------- */

/* Bytes of data that a step can have before its lanes settle, all of it. */
static size_t most_before(const kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  size_t heads = (size_t)shape->n_heads, t = (size_t)shape->n_tokens;
  size_t head = ((size_t)shape->d_v + 1) * 4 + 2 * sizeof(int32_t) +
                (t / 2 + 1) * sizeof(kv_run) +
                (s->layer.logits ? t * sizeof(float) : 0);
  size_t columns = (size_t)s->plan->needs.columns * t * sizeof(int64_t);
  return heads * head + (size_t)s->lanes * (sizeof *s->bad + columns) +
         (size_t)s->layer.pieces * 16;
}

/* And what lanes usually have to say when they did; a prompt, and the coding
 * of many rows, have more. */
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
  l->lane_pieces = rewrites ? KV_GPU_SAY_ALL : KV_GPU_SAY_PLAIN;
  l->logits = s->plan->logits;
  l->stage[KV_GPU_SAY_VIEWS] = 0;
  l->stage[KV_GPU_SAY_COLUMNS] =
      KV_GPU_OF_VIEWS + KV_GPU_OF_HEAD * s->plan->shape->n_heads;
  l->stage[KV_GPU_SAY_LANES] =
      l->stage[KV_GPU_SAY_COLUMNS] + KV_MAX_COLUMNS * s->lanes;
  l->pieces =
      l->stage[KV_GPU_SAY_LANES] + KV_GPU_OF_LANES + l->lane_pieces * s->lanes;
  l->report_room = (most_before(s) + usual_after(s) + 255) / 256 * 256;
  size_t size = kv_gpu_report_data(l->pieces) + l->report_room;
  l->report = room(s, size);
  if (s->fault.rc) return;
  s->report = s->device->pin(size);
  if (s->report) return;
  const char *why = s->device->failed();
  kv_fail(&s->fault, KV_RESOURCE, "backend %s: %s", s->device->name,
          why ? why : "no page-locked memory on this machine");
}

void kv_gpu_take_all(kv_store *s) {
  take_layer(s);
  take_decisions(s);
  for (int i = 0; !s->fault.rc && i < s->lanes; i++) take_lane(s, i);
  if (!s->fault.rc) take_report(s);
}
