/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a store: opening takes all memory, on the device and on the host;
 * a layer begins with its rows. Contract: gpu/store.h.
 */
#include "gpu/store.h"
#include <stdlib.h>
#include <string.h>

enum {
  TILE_BYTES = 1 << 26,
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
  s->list = kv_zalloc(KV_GPU_LOG(t), sizeof *s->list);
  s->next = kv_zalloc(t, sizeof *s->next);
  if (s->plan->logits) s->s = kv_zalloc(places, sizeof *s->s);
  if (s->plan->colsum) s->sums = kv_zalloc(places, sizeof *s->sums);
  return s->head && s->mirror && s->bad && s->state && s->out && s->lse &&
         s->both && s->row && s->list && s->next &&
         (s->s || !s->plan->logits) && (s->sums || !s->plan->colsum) &&
         take_views(s);
}

/* --- life --------------------------------------------------------------- */

static void forget(kv_store *s) {
  for (int i = 0; i < 2; i++) {
    s->device->forget(s->recorded[i]);
    s->recorded[i] = NULL;
  }
}

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
  forget(s);
  kv_gpu_loaded_close(s->rows);
  kv_gpu_pool_close(s->pool);
  pthread_mutex_destroy(&s->lock);
  for (int i = 0; i < s->n_taken; i++) s->device->give(s->taken[i]);
  s->device->unpin(s->report);
  give_mirror(s);
  free(s->taken);
  free(s->head);
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

static void check_plan(kv_store *s) {
  const kv_method *method = s->plan->method;
  const char *name = s->device->name;
  if (s->plan->shape->n_heads > MOST_HEADS)
    kv_fail(&s->fault, KV_RESOURCE, "backend %s takes %d query heads at most",
            name, MOST_HEADS);
  else if (!s->hooks)
    kv_fail(&s->fault, KV_RESOURCE,
            "backend %s does not have the method %s: leave it out or compare "
            "other methods",
            name, method->name);
  else if (s->hooks->params_size != method->params_size)
    kv_fail(&s->fault, KV_RESOURCE,
            "backend %s has the method %s of another kvreplay (parameters of "
            "%zu bytes, not %zu): build and install both together",
            name, method->name, s->hooks->params_size, method->params_size);
}

static void share(kv_store *s) {
  kv_gpu_layer *l = &s->layer;
  if (kv_gpu_pool_open(s->device, s->plan, &s->pool, &s->fault)) return;
  if (!s->plan->needs.reindex) return;
  l->rotation = s->pool->rotation;
  l->position = s->pool->position;
  l->range = s->pool->range;
  l->interleaved = s->plan->rope->interleaved;
}

/* What was put while it opened has arrived, or the device says why not. */
static void check_device(kv_store *s) {
  const char *why = s->fault.rc ? NULL : s->device->failed();
  if (why)
    kv_fail(&s->fault, KV_RESOURCE, "backend %s: %s", s->device->name, why);
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
  check_plan(s);
  if (!s->fault.rc && !take_host(s))
    kv_no_memory(&s->fault, "a store", (size_t)s->layer.stride * 8);
  for (int i = 0; !s->fault.rc && i < s->lanes; i++)
    kv_lane_init(&s->mirror[i], plan->shape, &plan->needs, i, &s->fault);
  if (!s->fault.rc) share(s);
  if (!s->fault.rc) kv_gpu_take_all(s);
  check_device(s);
  if (s->fault.rc) {
    kv_rc rc = s->fault.rc;
    if (e) *e = s->fault;
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
    slab[f].used = slab[f].n_free = slab[f].held = slab[f].n_fresh = 0;
    slab[f].codes = slab[f].metadata = 0;
  }
}

static void reset_lane(kv_store *s, int i) {
  kv_gpu_lane *l = &s->head[i];
  kv_lane_begin(&s->mirror[i], s->data);
  l->n = l->step = l->rewritten = l->dropped = l->holes = 0;
  l->n_verbs = l->n_log = l->n_joined = l->fault = 0;
  reset_slabs(l->k_slab);
  reset_slabs(l->v_slab);
  s->bad[i] = UINT64_MAX;
}

static void take_rows(kv_store *s) {
  kv_gpu_layer *l = &s->layer;
  kv_gpu_loaded_close(s->rows);
  if (kv_gpu_loaded_open(s->pool, s->data, &s->rows, &s->fault)) return;
  l->k = s->rows->k;
  l->v = s->rows->v;
  l->query = s->rows->q;
  l->query_type = s->data->q_dtype;
  l->query_rows = s->data->n_rows;
}

static void put_lists(kv_store *s, const kv_lists *from, kv_lists *to) {
  const kv_device *dev = s->device;
  size_t lists = (size_t)from->steps * (size_t)from->heads;
  to->heads = from->heads;
  to->page = from->page;
  to->steps = from->steps;
  if (!from->steps) return;
  dev->put((void *)to->step, from->step,
           (size_t)from->steps * sizeof *from->step);
  dev->put((void *)to->start, from->start, (lists + 1) * sizeof *from->start);
  dev->put((void *)to->item, from->item,
           (size_t)from->start[lists] * sizeof *from->item);
}

static void put_decisions(kv_store *s) {
  const kv_decided *d = kv_decided_at(s->decisions, s->data->layer);
  put_lists(s, &d->stored, &s->layer.stored);
  put_lists(s, &d->view, &s->layer.view);
}

void kv_gpu_begin(kv_store *s, const kv_layer_data *data) {
  const kv_device *dev = s->device;
  size_t lanes = (size_t)s->lanes;
  forget(s); /* a recorded kernel has its layer's number in it */
  s->data = data;
  s->layer.layer = data->layer;
  s->fault = (kv_err){0};
  s->lost = false;
  s->end = 0;
  for (int i = 0; i < s->lanes; i++) reset_lane(s, i);
  take_rows(s);
  if (s->decisions) put_decisions(s);
  if (s->own) dev->clear(s->own, lanes * s->own_size);
  dev->put(s->layer.lane, s->head, lanes * sizeof *s->head);
  dev->put(s->layer.bad, s->bad, lanes * sizeof *s->bad);
  kv_leaves_begin(&s->leaves);
  kv_gpu_lost(s);
}
