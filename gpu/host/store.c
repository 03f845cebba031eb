/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a store allocates all memory, on the device and on the host; a layer
 * begins with its rows. Contract: gpu/host/store.h.
 */
#include "gpu/host/indexed.h"
#include "gpu/host/rebuilt.h"
#include "gpu/host/tiers.h"
#include "ref/formats/hadamard.h"
#include <stdlib.h>
#include <string.h>

/* --- memory --------------------------------------------------------------- */

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

/* own: the lane's state on the device. key: the slab is for keys. */
static void take_preparing(kv_store *s, const kv_coding *c, bool key,
                           const void *own, kv_gpu_slab *to) {
  size_t rows = (size_t)to->cap * (size_t)kv_coding_members(c);
  if (c->own_settings) to->settings = (const char *)own + c->own_at;
  if (c->rotate) to->rotate = kv_hadamard_block(to->width);
  if (rows && (c->rotate || (key && c->shifted))) {
    to->most = kv_coding_members(c);
    to->restored = room(s, rows * (size_t)to->width * sizeof *to->restored);
  }
  if (!key || (!c->pre_rope && !c->shifted)) return;
  to->pairs = s->plan->rope->interleaved ? KV_GPU_INTERLEAVED : KV_GPU_HALVES;
  if (c->pre_rope) to->pre_rope = to->pairs;
  if (c->shifted) to->shift = (const void *)((const char *)own + c->shift);
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
      bool key = side == KV_SIDE_K;
      const kv_slab *from = key ? &m->k_slab[f] : &m->v_slab[f];
      kv_gpu_slab *to = key ? &l->k_slab[f] : &l->v_slab[f];
      take_slab(s, &in, to, from);
      if (from->coding) take_preparing(s, from->coding, key, l->own, to);
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
  if (s->own) l->own = s->own + (size_t)i * s->own_size;
  take_rewriting(s, l, m);
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

/* Bytes of a layer's key biases. */
static size_t bias_size(const kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  return (size_t)shape->n_kv_heads * (size_t)shape->d * sizeof *s->k_bias;
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
  if (!s->fault.rc)
    l->s = kv_gpu_trace_room(s->trace, 2 * rows * places * sizeof *l->s,
                             &s->fault);
  if (l->s) l->p = l->s + rows * places;
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
  if (s->plan->needs.key_bias) s->k_bias = room(s, bias_size(s));
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

/* Logits and probabilities of a tile of prompt rows. On a device 16 rows of 32
 * heads and 131,072 tokens: a launch then has work for all of it. */
enum {
  NEAR_TILE_BYTES = 1 << 26,
  FAR_TILE_BYTES = 1 << 30,
  TILE_ROWS = 16,
  MOST_HEADS = 65535 /* blocks in a grid's second dimension */
};

/* --- memory of the host ------------------------------------------------- */

static bool take_views(kv_store *s) {
  size_t heads = (size_t)s->plan->shape->n_heads;
  s->view = kv_zalloc(heads, sizeof *s->view);
  for (size_t h = 0; s->view && h < heads; h++) {
    size_t runs = (size_t)s->layer.stride / 2 + 1;
    s->view[h].run = kv_zalloc(runs, sizeof(kv_run));
    if (!s->view[h].run) return false;
  }
  return s->view != NULL;
}

static bool take_host(kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  size_t heads = (size_t)shape->n_heads, d_v = (size_t)shape->d_v;
  size_t places = heads * (size_t)s->layer.stride, lanes = (size_t)s->lanes;
  size_t t = (size_t)shape->n_tokens;
  s->head = kv_zalloc(lanes, sizeof *s->head);
  s->mirror = kv_zalloc(lanes, sizeof *s->mirror);
  s->bad = kv_zalloc(lanes, sizeof *s->bad);
  s->state = kv_zalloc(lanes, sizeof *s->state);
  s->out = kv_zalloc(heads * d_v, sizeof *s->out);
  s->lse = kv_zalloc(heads, sizeof *s->lse);
  s->both = kv_zalloc(heads * (d_v + 1), sizeof *s->both);
  s->row = kv_zalloc((size_t)shape->d + d_v, sizeof *s->row);
  s->list =
      kv_zalloc(kv_lane_rewrites(&s->plan->needs, s->plan->shape->n_tokens),
                sizeof *s->list);
  s->next = kv_zalloc(t, sizeof *s->next);
  size_t message = s->plan->needs.message;
  if (message > 0) s->message = kv_zalloc(1, sizeof(kv_gpu_message) + message);
  if (message > 0 && !s->message) return false;
  if (s->plan->logits) s->s = kv_zalloc(places, sizeof *s->s);
  if (s->plan->colsum) s->sums = kv_zalloc(places, sizeof *s->sums);
  return s->head && s->mirror && s->bad && s->state && s->out && s->lse &&
         s->both && s->row && s->list && s->next &&
         (s->s || !s->plan->logits) && (s->sums || !s->plan->colsum) &&
         take_views(s);
}

/* --- life --------------------------------------------------------------- */

static void give_mirror(kv_store *s) {
  for (int i = 0; s->mirror && i < s->lanes; i++) {
    if (s->device->near && s->head && s->head[i].own) s->mirror[i].own = NULL;
    kv_lane_release(&s->mirror[i]);
  }
  for (int h = 0; s->view && h < s->plan->shape->n_heads; h++)
    free(s->view[h].run);
}

void kv_gpu_close(kv_store *s) {
  if (!s) return;
  kv_gpu_forget(s);
  kv_gpu_loaded_close(s->rows);
  kv_gpu_log_close(s->log);
  pthread_mutex_destroy(&s->lock);
  for (int i = 0; i < s->n_taken; i++) s->device->give(s->taken[i]);
  kv_gpu_tiers_give(s);
  kv_gpu_indexed_give(s);
  kv_gpu_rebuilt_give(s);
  s->device->unpin(s->report);
  kv_gpu_trace_close(s->trace); /* it ends when nothing is taken any more */
  kv_future_close(s->future);
  give_mirror(s);
  free(s->taken);
  free(s->asset);
  free(s->head);
  free(s->page);
  free(s->pages);
  free(s->mirror);
  free(s->bad);
  free(s->state);
  free(s->s);
  free(s->out);
  free(s->lse);
  free(s->both);
  free(s->view);
  free(s->sums);
  free(s->row);
  free(s->list);
  free(s->next);
  free(s->message);
  kv_gpu_shows_give(s);
  kv_turns_close(&s->turns);
  kv_places_close(s->places);
  free(s);
}

static void size_up(kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  kv_gpu_layer *l = &s->layer;
  s->lanes = kv_lane_count(&s->plan->needs, shape);
  s->queries = shape->n_heads / s->lanes;
  *l = (kv_gpu_layer){
      .shape = *shape, .needs = s->plan->needs, .lanes = s->lanes};
  l->stride = (shape->n_tokens + 15) / 16 * 16;
  l->chunks = (shape->n_tokens + KV_GPU_CHUNK - 1) / KV_GPU_CHUNK;
  int bytes = s->device->near ? NEAR_TILE_BYTES : FAR_TILE_BYTES;
  int most = bytes / 8 / shape->n_heads / l->stride;
  s->tile_rows = most < 1 ? 1 : most < TILE_ROWS ? most : TILE_ROWS;
}

static void check_part(kv_store *s, int i) {
  const kv_method *method = s->part[i].method;
  const char *name = s->device->name;
  if (!s->hooks[i])
    kv_fail(
        &s->fault, KV_RESOURCE,
        "backend %s does not have method %s; leave it out, or use backend ref",
        name, method->name);
  else if (s->hooks[i]->params_size != method->params_size)
    kv_fail(&s->fault, KV_RESOURCE,
            "backend %s has method %s of another kvreplay version (parameters "
            "of %zu bytes, not %zu); build and install both together",
            name, method->name, s->hooks[i]->params_size, method->params_size);
}

static void check_plan(kv_store *s) {
  if (s->plan->shape->n_heads > MOST_HEADS)
    kv_fail(&s->fault, KV_RESOURCE, "backend %s allows at most %d query heads",
            s->device->name, MOST_HEADS);
  for (int i = 0; !s->fault.rc && i < s->parts; i++) check_part(s, i);
}

/* Names the methods of the current plan. */
static void name_parts(kv_store *s) {
  const kv_plan *p = s->plan;
  s->parts = kv_parts_opened(p->method, p->params, &p->needs, s->part);
  for (int i = 0; i < s->parts; i++)
    s->hooks[i] = s->device->hooks(s->part[i].method->name);
}

/* Refuses formats that the device was not built with: their blocks would be
 * read as another format's. */
static void check_formats(kv_store *s) {
  const kv_needs *need = &s->plan->needs;
  for (int i = 0; !s->fault.rc && i < need->codings; i++) {
    const char *format = need->coding[i].format->name;
    if (s->device->format(format) >= 0) continue;
    kv_fail(&s->fault, KV_RESOURCE,
            "backend %s does not have format %s, which %s needs; use backend "
            "ref or leave the method out",
            s->device->name, format, s->plan->method->name);
  }
}

static void share(kv_store *s) {
  kv_gpu_layer *l = &s->layer;
  const kv_needs *need = &s->plan->needs;
  if (kv_gpu_trace_open(s->device, s->plan, &s->turns, &s->trace, &s->fault))
    return;
  if (!need->reindex && !need->rope) return;
  l->back = need->reindex ? s->trace->back : NULL;
  l->forth = need->reindex ? s->trace->forth : NULL;
  l->turns = need->rope ? s->trace->turns : NULL;
  l->position = s->trace->position;
  l->interleaved = s->plan->rope->interleaved;
}

/* Waits until everything copied during open has arrived; otherwise the device
 * says why. */
static void check_device(kv_store *s) {
  const char *why = s->fault.rc ? NULL : kv_gpu_failed(s->device);
  if (why)
    kv_fail(&s->fault, KV_RESOURCE, "backend %s: %s", s->device->name, why);
}

kv_rc kv_gpu_open(const kv_device *device, const kv_plan *plan, kv_store **out,
                  kv_err *e) {
  kv_store *s = kv_zalloc(1, sizeof *s);
  if (!s) return kv_no_memory(e, "a store", sizeof *s);
  pthread_mutex_init(&s->lock, NULL);
  s->device = device;
  s->opened = s->plan = plan;
  s->shape = *plan->shape;
  name_parts(s);
  size_up(s);
  check_plan(s);
  check_formats(s);
  if (!s->fault.rc && !take_host(s))
    kv_no_memory(&s->fault, "a store", (size_t)s->layer.stride * 8);
  if (!s->fault.rc && plan->needs.rope)
    kv_turns_open(plan->rope, plan->shape->n_tokens, plan->shape->d,
                  plan->needs.ahead, &s->turns, &s->fault);
  if (!s->fault.rc && plan->needs.reindex)
    kv_places_open(plan->rope, plan->shape->n_tokens, plan->shape->d,
                   &s->places, &s->fault);
  for (int i = 0; !s->fault.rc && i < s->lanes; i++) {
    kv_lane_init(&s->mirror[i], &s->shape, &plan->needs, plan->kernels, i,
                 &s->fault);
    if (plan->needs.rope) s->mirror[i].turns = &s->turns;
    s->mirror[i].places = s->places;
  }
  if (!s->fault.rc)
    kv_future_open(plan, s->lanes, s->mirror, &s->future, &s->fault);
  if (!s->fault.rc) share(s);
  for (int i = 0; !s->fault.rc && i < s->parts; i++)
    s->own_views |= s->hooks[i]->view != NULL;
  if (!s->fault.rc) kv_gpu_take_all(s);
  check_device(s);
  if (s->fault.rc) {
    kv_rc rc = s->fault.rc;
    if (e) *e = s->fault;
    kv_gpu_close(s);
    return rc;
  }
  *out = s;
  return KV_OK;
}

/* --- a layer begins ----------------------------------------------------- */

static void reset_slabs(kv_gpu_slab *slab) {
  for (int f = 0; f < KV_SLABS; f++) {
    slab[f].used = slab[f].n_free = slab[f].held = slab[f].n_fresh = 0;
    slab[f].codes = slab[f].metadata = 0;
  }
}

static void reset_lane(kv_store *s, int i) {
  kv_gpu_lane *l = &s->head[i];
  kv_lane_begin(&s->mirror[i], &s->plan->needs, s->data);
  l->n = l->step = l->rewritten = l->dropped = l->holes = 0;
  l->marked = l->tail = 0;
  l->wrote = l->n_verbs = l->n_log = l->n_joined = l->fault = 0;
  l->k_raw.used = l->k_raw.n_free = l->v_raw.used = l->v_raw.n_free = 0;
  reset_slabs(l->k_slab);
  reset_slabs(l->v_slab);
  s->bad[i] = UINT64_MAX;
}

/* Switches to the layer's plan, which fits into what was opened. The method's
 * parameters stay at the same address. */
static void take_plan(kv_store *s) {
  s->plan = kv_plan_of(s->opened, s->data->layer);
  if (s->plan == s->opened) return;
  name_parts(s);
  s->layer.needs = s->plan->needs;
  s->device->put((void *)s->layer.params, s->plan->params,
                 s->plan->method->params_size);
}

static void take_rows(kv_store *s) {
  kv_gpu_layer *l = &s->layer;
  kv_gpu_loaded_close(s->rows);
  if (kv_gpu_loaded_open(s->trace, s->data, &s->rows, &s->fault)) return;
  l->k = s->rows->k;
  l->v = s->rows->v;
  l->query = s->rows->q;
  l->query_type = s->data->q_dtype;
  l->query_rows = s->data->n_rows;
  l->sinks = s->data->sinks ? s->sinks : NULL;
  if (l->sinks)
    s->device->put(s->sinks, s->data->sinks,
                   (size_t)l->shape.n_heads * sizeof *s->sinks);
  l->k_bias = s->data->k_bias ? s->k_bias : NULL;
  if (l->k_bias) s->device->put(s->k_bias, s->data->k_bias, bias_size(s));
}

/* Uploads the layer's own tensors of the method's file; of a layer that it does
 * not know there are none. */
static void put_asset(kv_store *s) {
  const kv_asset *a = s->plan->asset;
  const kv_tensor *from = kv_asset_layer(a, s->data->layer);
  for (int i = 0; from && i < a->asked; i++) {
    kv_tensor here = from[i];
    here.data = from[i].data ? s->asset[i].data : NULL;
    if (from[i].data && kv_tensor_layered(&a->ask[i]))
      s->device->put((void *)here.data, from[i].data,
                     (size_t)here.count * kv_tensor_size(a->ask[i].type));
    s->device->put((void *)(uintptr_t)(s->layer.asset + i), &here, sizeof here);
  }
}

/* Recorded kernels contain the shape and the layer's number. */
void kv_gpu_prompt(kv_store *s, int end) {
  kv_gpu_forget(s);
  s->shape.prompt_len = s->layer.shape.prompt_len = end;
}

void kv_gpu_begin(kv_store *s, const kv_layer_data *data) {
  const kv_device *dev = s->device;
  size_t lanes = (size_t)s->lanes;
  kv_gpu_prompt(s, s->opened->shape->prompt_len);
  s->data = data;
  s->layer.layer = data->layer;
  take_plan(s);
  s->fault = (kv_err){0};
  s->lost = s->waiting = false;
  s->end = 0;
  for (int i = 0; i < s->lanes; i++) reset_lane(s, i);
  kv_future_begin(s->future);
  take_rows(s);
  if (s->asset) put_asset(s);
  if (s->own) dev->clear(s->own, lanes * s->own_size);
  kv_gpu_tiers_begin(s);
  kv_gpu_indexed_begin(s);
  kv_gpu_rebuilt_begin(s);
  dev->put(s->layer.lane, s->head, lanes * sizeof *s->head);
  dev->put(s->layer.bad, s->bad, lanes * sizeof *s->bad);
  kv_leaves_begin(&s->leaves);
  kv_gpu_shows_begin(s);
  if (s->message) kv_gpu_receive(s, NULL);
  kv_gpu_lost(s);
}
