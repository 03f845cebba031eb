/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a store: all of it is taken when it opens, on the device and on
 * the host. Contract: gpu/store.h.
 */
#include "gpu/store.h"
#include "ref/rope.h"
#include <stdlib.h>
#include <string.h>

enum {
  TILE_BYTES = 1 << 26,
  TILE_ROWS = 16,
  LOG_SPARE = 64,
  MOST_RANGE = 1 << 21, /* distances in a table of rotations */
  MOST_HEADS = 65535    /* blocks in a grid's second dimension */
};

/* --- device memory ------------------------------------------------------ */

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
  void *p = s->device->take(n ? n : 1);
  const char *why = s->device->failed();
  if (!p)
    kv_fail(&s->fault, KV_RESOURCE, "backend %s: %s", s->device->name,
            why ? why : "no memory on the device");
  else
    s->taken[s->n_taken++] = p;
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
}

static void take_rewriting(kv_store *s, kv_gpu_lane *l, const kv_lane *m) {
  const kv_shape *shape = s->plan->shape;
  size_t t = (size_t)shape->n_tokens;
  if (!m->k) return;
  l->k = room(s, t * sizeof *l->k);
  l->v = room(s, t * sizeof *l->v);
  l->cap_log = 2 * shape->n_tokens + LOG_SPARE;
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
  }
  take_rewriting(s, l, m);
  if (need->lane_state) l->own = room(s, need->lane_state);
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

static int32_t position(const kv_rope *rope, int t) {
  return rope && rope->positions ? rope->positions[t] : t;
}

/* Sines and cosines of every distance that an entry can be moved by. */
static kv_rc take_rotation(kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  const kv_rope *rope = s->plan->rope;
  kv_gpu_layer *l = &s->layer;
  size_t t = (size_t)shape->n_tokens, d = (size_t)shape->d;
  if (!s->plan->needs.reindex) return KV_OK;
  int64_t range = 0; /* entry i <= t moves by p0 - p[t] + i */
  for (int i = 0; i < shape->n_tokens; i++) {
    int64_t back = (int64_t)position(rope, 0) - position(rope, i);
    if (-back > range) range = -back;
    if (back + i > range) range = back + i;
  }
  if (range > MOST_RANGE)
    return kv_fail(&s->fault, KV_RESOURCE,
                   "backend %s: positions are up to %lld apart, too far for "
                   "its table of rotations; use backend ref",
                   s->device->name, (long long)range);
  size_t rows = 2 * (size_t)range + 1;
  l->range = (int)range;
  l->interleaved = rope->interleaved;
  float *table = kv_zalloc(rows, d * sizeof *table);
  if (!table) return kv_no_memory(&s->fault, "rotations", rows * d * 4);
  for (size_t i = 0; i < rows; i++)
    kv_rope_table(rope->inv_freq, shape->d, (int32_t)i - l->range,
                  table + i * d);
  float *to = room(s, rows * d * sizeof *to);
  if (to) s->device->put(to, table, rows * d * sizeof *to);
  free(table);
  l->rotation = to;
  if (!rope->positions) return s->fault.rc;
  int32_t *p = room(s, t * sizeof *p);
  if (p) s->device->put(p, rope->positions, t * sizeof *p);
  l->position = p;
  return s->fault.rc;
}

static void take_layer(kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  kv_gpu_layer *l = &s->layer;
  size_t heads = (size_t)shape->n_heads, stride = (size_t)l->stride;
  size_t rows = (size_t)s->tile_rows, d_v = (size_t)shape->d_v;
  size_t chunks = (size_t)l->chunks, places = heads * stride;
  size_t tokens = (size_t)shape->n_kv_heads * (size_t)shape->n_tokens;
  size_t element = kv_dtype_size(shape->dtype);
  void *params = room(s, s->plan->method->params_size);
  if (params && s->plan->method->params_size)
    s->device->put(params, s->plan->params, s->plan->method->params_size);
  l->params = params;
  l->lane = room(s, (size_t)s->lanes * sizeof *l->lane);
  l->k = room(s, tokens * (size_t)shape->d * element);
  l->v = room(s, tokens * d_v * element);
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
}

static bool take_host(kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  size_t heads = (size_t)shape->n_heads, d_v = (size_t)shape->d_v;
  size_t stride = (size_t)s->layer.stride, lanes = (size_t)s->lanes;
  size_t wide = (size_t)(shape->d + shape->d_v);
  s->head = kv_zalloc(lanes, sizeof *s->head);
  s->mirror = kv_zalloc(lanes, sizeof *s->mirror);
  s->bad = kv_zalloc(lanes, sizeof *s->bad);
  s->state = kv_zalloc(lanes, sizeof *s->state);
  s->q = kv_zalloc((size_t)s->tile_rows * heads * (size_t)shape->d, 4);
  s->s = kv_zalloc(heads * stride, sizeof *s->s);
  s->out = kv_zalloc(heads * d_v, sizeof *s->out);
  s->lse = kv_zalloc(heads, sizeof *s->lse);
  s->both = kv_zalloc(heads * (d_v + 1), sizeof *s->both);
  s->runs = kv_zalloc(heads, sizeof *s->runs);
  s->entries = kv_zalloc(heads, sizeof *s->entries);
  s->view = kv_zalloc(heads, sizeof *s->view);
  s->row = kv_zalloc(wide, sizeof *s->row);
  if (!s->head || !s->mirror || !s->bad || !s->state || !s->q || !s->s ||
      !s->out || !s->lse || !s->both || !s->runs || !s->entries || !s->view ||
      !s->row)
    return false;
  for (size_t h = 0; h < heads; h++) {
    s->view[h].run = kv_zalloc(stride / 2 + 1, sizeof(kv_run));
    if (!s->view[h].run) return false;
  }
  return true;
}

/* --- life --------------------------------------------------------------- */

static void forget(kv_store *s) {
  for (int i = 0; i < KV_GPU_PARTS; i++) {
    s->device->forget(s->recorded[i]);
    s->recorded[i] = NULL;
  }
}

void kv_gpu_close(kv_store *s) {
  if (!s) return;
  forget(s);
  pthread_mutex_destroy(&s->lock);
  for (int i = 0; i < s->n_taken; i++) s->device->give(s->taken[i]);
  for (int i = 0; s->mirror && i < s->lanes; i++) {
    if (s->device->near && s->head && s->head[i].own) s->mirror[i].own = NULL;
    kv_lane_release(&s->mirror[i]);
  }
  for (int h = 0; s->view && h < s->plan->shape->n_heads; h++)
    free(s->view[h].run);
  free(s->taken);
  free(s->head);
  free(s->mirror);
  free(s->bad);
  free(s->state);
  free(s->q);
  free(s->s);
  free(s->out);
  free(s->lse);
  free(s->both);
  free(s->runs);
  free(s->entries);
  free(s->view);
  free(s->row);
  free(s);
}

static void size_up(kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  kv_gpu_layer *l = &s->layer;
  s->lanes =
      s->plan->needs.lanes == QUERY_HEAD ? shape->n_heads : shape->n_kv_heads;
  s->queries = shape->n_heads / s->lanes;
  *l = (kv_gpu_layer){
      .shape = *shape, .needs = s->plan->needs, .lanes = s->lanes};
  l->stride = (shape->n_tokens + 15) / 16 * 16;
  l->chunks = (shape->n_tokens + KV_GPU_CHUNK - 1) / KV_GPU_CHUNK;
  int most = TILE_BYTES / 8 / shape->n_heads / l->stride;
  s->tile_rows = most < 1 ? 1 : most < TILE_ROWS ? most : TILE_ROWS;
}

kv_rc kv_gpu_open(const kv_device *device, const kv_plan *plan, kv_store **out,
                  kv_err *e) {
  kv_store *s = kv_zalloc(1, sizeof *s);
  if (!s) return kv_no_memory(e, "a store", sizeof *s);
  pthread_mutex_init(&s->lock, NULL);
  s->device = device;
  s->plan = plan;
  s->hooks = device->hooks(plan->method->name);
  size_up(s);
  if (plan->shape->n_heads > MOST_HEADS)
    kv_fail(&s->fault, KV_RESOURCE, "backend %s takes %d query heads at most",
            device->name, MOST_HEADS);
  else if (!s->hooks)
    kv_fail(&s->fault, KV_RESOURCE,
            "backend %s does not have the method %s: leave it out or compare "
            "other methods",
            device->name, plan->method->name);
  else if (!take_host(s))
    kv_no_memory(&s->fault, "a store", (size_t)s->layer.stride * 8);
  for (int i = 0; !s->fault.rc && i < s->lanes; i++)
    kv_lane_init(&s->mirror[i], plan->shape, &plan->needs, i, &s->fault);
  if (!s->fault.rc) take_layer(s);
  for (int i = 0; !s->fault.rc && i < s->lanes; i++) take_lane(s, i);
  if (!s->fault.rc) take_rotation(s);
  if (s->fault.rc) {
    if (e) *e = s->fault;
    kv_rc rc = s->fault.rc;
    kv_gpu_close(s);
    return rc;
  }
  s->own_views = s->hooks->view != NULL;
  *out = s;
  return KV_OK;
}

/* --- a layer begins ----------------------------------------------------- */

static void reset_slabs(kv_gpu_slab *slab) {
  for (int f = 0; f < KV_SLABS; f++) {
    slab[f].used = slab[f].n_free = slab[f].held = 0;
    slab[f].codes = slab[f].metadata = 0;
  }
}

static void reset_lane(kv_store *s, int i, const kv_layer_data *data) {
  kv_gpu_lane *l = &s->head[i];
  kv_lane_begin(&s->mirror[i], data);
  l->n = l->step = l->rewritten = l->dropped = l->holes = 0;
  l->n_verbs = l->n_log = l->fault = 0;
  reset_slabs(l->k_slab);
  reset_slabs(l->v_slab);
  if (l->own) s->device->clear(l->own, s->plan->needs.lane_state);
  s->bad[i] = UINT64_MAX;
}

void kv_gpu_begin(kv_store *s, const kv_layer_data *data) {
  const kv_shape *shape = s->plan->shape;
  const kv_device *dev = s->device;
  size_t tokens = (size_t)shape->n_kv_heads * (size_t)shape->n_tokens;
  size_t element = kv_dtype_size(shape->dtype);
  forget(s); /* a recorded kernel has its layer's number in it */
  s->data = data;
  s->layer.layer = data->layer;
  s->fault = (kv_err){0};
  s->end = 0;
  for (int i = 0; i < s->lanes; i++) reset_lane(s, i, data);
  dev->put((void *)(uintptr_t)s->layer.k, data->k,
           tokens * (size_t)shape->d * element);
  dev->put((void *)(uintptr_t)s->layer.v, data->v,
           tokens * (size_t)shape->d_v * element);
  dev->put(s->layer.lane, s->head, (size_t)s->lanes * sizeof *s->head);
  dev->put(s->layer.bad, s->bad, (size_t)s->lanes * sizeof *s->bad);
  kv_leaves_begin(&s->leaves);
}
