/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of the lanes' pools of rows. Only append takes rows, so before tokens
 * enter the host knows how many rows each pool will need, and adds the missing
 * pages: in one piece of memory for all lanes, whose addresses go to the device
 * in one copy. Pages stay with their pool from layer to layer.
 */
#include "gpu/host/store.h"

static kv_gpu_raw *pool_of(const kv_store *s, int i) {
  kv_gpu_lane *l = &s->head[i / 2];
  return i % 2 ? &l->v_raw : &l->k_raw;
}

static size_t page_size(const kv_store *s, int i) {
  return KV_GPU_PAGE * pool_of(s, i)->size;
}

void kv_gpu_pages_take(kv_store *s) {
  const kv_shape *shape = s->plan->shape;
  size_t most = kv_gpu_pages((size_t)shape->n_tokens);
  size_t pools = 2 * (size_t)s->lanes, t = (size_t)shape->n_tokens;
  s->page = kv_zalloc(pools * most, sizeof *s->page);
  s->pages = kv_zalloc(pools, sizeof *s->pages);
  if (!s->page || !s->pages) {
    kv_no_memory(&s->fault, "pages of rows", pools * most * sizeof *s->page);
    return;
  }
  s->paged = kv_gpu_take_room(s, pools * most * sizeof *s->page);
  for (int i = 0; i < (int)pools; i++) {
    kv_gpu_raw *pool = pool_of(s, i);
    int width = i % 2 ? shape->d_v : shape->d;
    pool->size = (size_t)width * kv_dtype_size(shape->dtype);
    pool->free = kv_gpu_take_room(s, t * sizeof *pool->free);
    if (s->paged) pool->page = s->paged + (size_t)i * most;
  }
}

/* Pages that pool i lacks for `count` more tokens. In decoding it gets an
 * eighth of what it has at least, so that pools that grow do so rarely. */
static int missing(const kv_store *s, int i, int count) {
  const kv_gpu_raw *pool = pool_of(s, i);
  int most = kv_gpu_pages(s->plan->shape->n_tokens);
  if (pool->fixed) return 0;
  int more = kv_gpu_pages(pool->used + count - pool->n_free) - s->pages[i];
  if (more <= 0) return 0;
  if (count == 1 && more < s->pages[i] / 8) more = s->pages[i] / 8;
  return more < most - s->pages[i] ? more : most - s->pages[i];
}

static void add_pages(kv_store *s, size_t bytes, int count) {
  size_t most = kv_gpu_pages((size_t)s->plan->shape->n_tokens);
  char *at = kv_gpu_take_room(s, bytes);
  for (int i = 0; at && i < 2 * s->lanes; i++)
    for (int more = missing(s, i, count); more > 0; more--) {
      s->page[(size_t)i * most + (size_t)s->pages[i]++] = at;
      at += page_size(s, i);
    }
  if (at)
    s->device->put(s->paged, s->page,
                   2 * (size_t)s->lanes * most * sizeof *s->page);
}

void kv_gpu_pages_grow(kv_store *s, int count) {
  size_t bytes = 0;
  for (int i = 0; i < 2 * s->lanes; i++)
    bytes += (size_t)missing(s, i, count) * page_size(s, i);
  if (bytes) add_pages(s, bytes, count);
  for (int i = 0; i < 2 * s->lanes; i++)
    kv_gpu_take_rows(pool_of(s, i), count); /* as append will */
}
