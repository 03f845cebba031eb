/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager on a device: gpu/host/unified.h.
 */
#include "gpu/host/unified.h"

#include <stdlib.h>

/* Every array is of a unit, and stands in the order in which it is taken. */
static bool take_all(kv_gpu_unified *u, const kv_pages_shape *s) {
  const kv_device *device = u->device;
  kv_gpu_pages *p = &u->p;
  size_t requests = (size_t)s->requests, heads = requests * (size_t)s->heads;
  size_t parts = requests * (size_t)p->parts, table = (size_t)s->table;
  p->front = device->take(sizeof *p->front);
  p->ring = device->take((size_t)s->pages * sizeof *p->ring);
  p->table = device->take(heads * table * sizeof *p->table);
  p->held = device->take(heads * sizeof *p->held);
  p->store = device->take(heads * sizeof *p->store);
  p->job = device->take(requests * sizeof *p->job);
  p->goal = device->take(heads * sizeof *p->goal);
  p->part = device->take(parts * sizeof *p->part);
  p->sum = device->take(requests * sizeof *p->sum);
  return p->front && p->ring && p->table && p->held && p->store && p->job &&
         p->goal && p->part && p->sum;
}

static kv_rc no_tables(const kv_gpu_unified *u, kv_err *e) {
  const kv_pages_shape *s = &u->p.shape;
  return kv_no_memory(e, "tables of pages on a device",
                      (size_t)s->requests * (size_t)s->heads *
                          (size_t)s->table * sizeof *u->p.table);
}

/* All pages are free, in the order of their ids. */
kv_rc kv_gpu_unified_reset(kv_gpu_unified *u, kv_err *e) {
  const kv_pages_shape *s = &u->p.shape;
  size_t heads = (size_t)s->requests * (size_t)s->heads;
  int32_t *ring = kv_zalloc((size_t)s->pages, sizeof *ring);
  kv_gpu_pages_front front = {.count = s->pages};
  if (!ring) return no_tables(u, e);
  for (int32_t i = 0; i < s->pages; i++) ring[i] = i;
  u->device->put(u->p.ring, ring, (size_t)s->pages * sizeof *ring);
  u->device->put(u->p.front, &front, sizeof front);
  u->device->clear(u->p.held, heads * sizeof *u->p.held);
  u->device->clear(u->p.store, heads * sizeof *u->p.store);
  free(ring);
  return KV_OK;
}

kv_rc kv_gpu_unified_open(const kv_device *device, const kv_pages_shape *shape,
                          kv_gpu_unified *out, kv_err *e) {
  kv_gpu_unified *u = out;
  *u = (kv_gpu_unified){.device = device, .p = {.shape = *shape}};
  u->p.parts = (shape->heads + KV_GPU_PART - 1) / KV_GPU_PART;
  kv_rc rc = take_all(u, shape) ? kv_gpu_unified_reset(u, e) : no_tables(u, e);
  if (!rc) return KV_OK;
  kv_gpu_unified_close(u);
  return rc;
}

void kv_gpu_unified_close(kv_gpu_unified *u) {
  const kv_gpu_pages *p = &u->p;
  void *const all[] = {p->front, p->ring, p->table, p->held, p->store,
                       p->job,   p->goal, p->part,  p->sum};
  for (size_t i = 0; u->device && i < sizeof all / sizeof *all; i++)
    u->device->give(all[i]);
  *u = (kv_gpu_unified){0};
}

int kv_gpu_unified_compact(kv_gpu_unified *u, int n, kv_pages_job *job) {
  const kv_device *device = u->device;
  size_t bytes = (size_t)n * sizeof *job;
  int32_t refused = 0;
  if (n == 0) return 0;
  device->put(u->p.job, job, bytes);
  device->compact(device->stream(), &u->p, n);
  device->get(job, u->p.job, bytes);
  device->get(&refused, &u->p.front->refused, sizeof refused);
  return refused;
}

static kv_gpu_paged_side side_of(const kv_page_map *m, const kv_page_token *t,
                                 const kv_gpu_tier_side *of, int side) {
  static const kv_page_segment codes[] = {KV_PAGE_K, KV_PAGE_V};
  return (kv_gpu_paged_side){.how = of->how,
                             .slab = of->slab,
                             .width = of->width,
                             .ranges = (of->width + of->how.group - 1) /
                                       of->how.group,
                             .codes = (int32_t)t->codes[side],
                             .meta = (int32_t)t->meta[side],
                             .codes_at = (int32_t)m->at[codes[side]],
                             .meta_at = (int32_t)m->at[codes[side] + 1]};
}

kv_gpu_paged_tier kv_gpu_paged_tier_of(int64_t page, const kv_page_token *t,
                                       const kv_gpu_tier_side side[KV_SIDES]) {
  kv_page_map m = kv_page_map_of(page, t);
  return (kv_gpu_paged_tier){
      .tokens = m.tokens,
      .side = {side_of(&m, t, &side[KV_SIDE_K], KV_SIDE_K),
               side_of(&m, t, &side[KV_SIDE_V], KV_SIDE_V)}};
}
