/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a store allocates all memory, on the device and on the host; a layer
 * begins with its rows. Contract: gpu/host/store.h.
 */
#include "gpu/host/indexed.h"
#include "gpu/host/rebuilt.h"
#include "gpu/host/tiers.h"
#include <stdlib.h>
#include <string.h>

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
    kv_fail(&s->fault, KV_RESOURCE,
            "backend %s does not have the method %s: leave it out or compare "
            "other methods",
            name, method->name);
  else if (s->hooks[i]->params_size != method->params_size)
    kv_fail(&s->fault, KV_RESOURCE,
            "backend %s has the method %s of another kvreplay (parameters of "
            "%zu bytes, not %zu): build and install both together",
            name, method->name, s->hooks[i]->params_size, method->params_size);
}

static void check_plan(kv_store *s) {
  if (s->plan->shape->n_heads > MOST_HEADS)
    kv_fail(&s->fault, KV_RESOURCE, "backend %s takes %d query heads at most",
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
            "backend %s does not have the format %s, in which %s stores rows: "
            "use backend ref or leave the method out",
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
