/* SPDX-License-Identifier: Apache-2.0
 *
 * Quest: twin of ref/methods/quest.c, which defines what is computed. Boxes are
 * in the lane's state byte for byte as there: two sides, each in tiles of 16
 * boxes, [x][16] numbers a tile in the trace's type.
 *
 * A thread widens one channel of one page, bounds one page (one chain over x),
 * flags every KV_BLOCK-th entry. Cost: O(d) a token; O(d * n / page) a query
 * head and step, times the lane's query heads if they share.
 */
#include "gpu/lane/entry.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/methods/quest.h"

static __device__ int pages_of(int n, int page) {
  return (n + page - 1) / page;
}

static __device__ size_t size_of(kv_dtype type) {
  return type == KV_F32 ? 4 : 2;
}

/* Bytes of one side of all boxes. */
static __device__ size_t side_bytes(const kv_shape &s, int page) {
  int tiles = (pages_of(s.n_tokens, page) + TILE - 1) / TILE;
  return (size_t)tiles * TILE * (size_t)s.d * size_of(s.dtype);
}

/* Where a page's tile begins in the lower side. */
static __device__ char *tile_of(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                int page) {
  const kv_shape &s = at.layer->shape;
  size_t numbers = (size_t)(page / TILE) * TILE * (size_t)s.d;
  return (char *)kv_gpu_own(at, lane) + numbers * size_of(s.dtype);
}

/* --- boxes: numbers as integers in rule 2's order ----------------------- */

/* Maps bits to such an integer and back; 16-bit elements use the upper half. */
static __device__ int32_t flip(uint32_t bits) {
  return (int32_t)(bits ^ ((bits >> 31) * 0x7fffffffu));
}

static __device__ int32_t load(size_t size, const char *at) {
  if (size == 4) return flip(*(const uint32_t *)at);
  return flip((uint32_t) * (const uint16_t *)at << 16);
}

static __device__ void save(size_t size, int32_t number, char *at) {
  uint32_t wide = (uint32_t)flip((uint32_t)number);
  if (size == 4)
    *(uint32_t *)at = wide;
  else
    *(uint16_t *)at = (uint16_t)(wide >> 16);
}

/* Entries first..end-1, all of one page, widen channel x of its box. */
static __device__ void grow(const kv_gpu_at &at, const kv_gpu_lane *lane,
                            int page, int x, int first, int end) {
  const params *o = (const params *)at.params;
  const kv_shape &s = at.layer->shape;
  size_t size = size_of(s.dtype);
  char *low = tile_of(at, lane, page) + (size_t)(x * TILE + page % TILE) * size;
  char *high = low + side_bytes(s, o->page);
  bool fresh = first == page * o->page;
  int32_t lo = fresh ? INT32_MAX : load(size, low);
  int32_t hi = fresh ? INT32_MIN : load(size, high);
  for (int i = first; i < end; i++) {
    const char *row = kv_gpu_raw_at(lane->k_raw, lane->k[i].block);
    int32_t k = load(size, row + (size_t)x * size);
    if (k < lo) lo = k;
    if (k > hi) hi = k;
  }
  save(size, lo, low);
  save(size, hi, high);
}

static __device__ void arrive(kv_gpu_at &at, kv_gpu_lane *lane, int first) {
  const params *o = (const params *)at.params;
  int n = lane->n, d = at.layer->shape.d, from = first / o->page;
  if (at.layer->layer < o->skip) return;
  int64_t count = (int64_t)(pages_of(n, o->page) - from) * d;
  for (int64_t j = kv_thread(); j < count; j += KV_BLOCK) {
    int page = from + (int)(j / d), start = page * o->page;
    int end = start + o->page < n ? start + o->page : n;
    grow(at, lane, page, (int)(j % d), start > first ? start : first, end);
  }
  __syncthreads();
}

/* --- the choice --------------------------------------------------------- */

/* No key of the page has a larger product with q (arithmetic 5). */
static __device__ float bound(const kv_gpu_at &at, const kv_gpu_lane *lane,
                              int page, const float *q) {
  const params *o = (const params *)at.params;
  const kv_shape &s = at.layer->shape;
  kv_gpu_row low = kv_gpu_plain_row(tile_of(at, lane, page), s.dtype);
  kv_gpu_row high = low;
  high.at += side_bytes(s, o->page);
  float u = 0;
  for (int x = 0; x < s.d; x++) {
    int i = x * TILE + page % TILE;
    u = kv_add(u, kv_max(kv_mul(q[x], kv_gpu_element(low, i)),
                         kv_mul(q[x], kv_gpu_element(high, i))));
  }
  return u;
}

/* The bound for query heads that choose together. */
static __device__ float shared_bound(const kv_gpu_at &at,
                                     const kv_gpu_lane *lane,
                                     const kv_gpu_query &q, int page) {
  const params *o = (const params *)at.params;
  if (o->share == HEAD) return bound(at, lane, page, q.q);
  float total = bound(at, lane, page, q.group_q);
  for (int h = 1; h < q.queries; h++) {
    const float *row = q.group_q + (size_t)h * (size_t)at.layer->shape.d;
    float u = bound(at, lane, page, row);
    total = o->share == GROUP_SUM ? kv_add(total, u) : kv_max(total, u);
  }
  return total;
}

/* How many of the pages are attended; all of them where nothing is saved. */
static __device__ int pages_wanted(const params *o, int n) {
  int pages = pages_of(n, o->page);
  int most = o->budget < n ? o->budget : n, k = most / o->page;
  int least = o->rule == PAPER ? PAPER_PAGES : 1;
  if (o->rule == ENGINE && o->budget >= n) return pages;
  if (o->rule == TWILIGHT) k = pages_of(o->budget, o->page);
  if (k < least) k = least;
  return k < pages ? k : pages;
}

/* Flags the k pages; the engine's rule forces the last. */
static __device__ void choose(kv_gpu_at &at, const kv_gpu_lane *lane,
                              const kv_gpu_query &q, int pages, int k,
                              uint8_t *in) {
  const params *o = (const params *)at.params;
  float *u = KV_GPU_TAKE(at, float, pages);
  int forced = o->rule == ENGINE;
  for (int i = kv_thread(); i < pages; i += KV_BLOCK)
    u[i] = shared_bound(at, lane, q, i);
  if (forced && kv_thread() == 0) in[pages - 1] = 1;
  __syncthreads();
  kv_gpu_top(at, u, pages - forced, k - forced, in);
}

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &q, uint8_t *mask) {
  const params *o = (const params *)at.params;
  int n = lane->n, pages = pages_of(n, o->page), k = pages_wanted(o, n);
  bool all = at.layer->layer < o->skip || k == pages;
  uint8_t *in = KV_GPU_TAKE(at, uint8_t, pages);
  if (!all) choose(at, lane, q, pages, k, in);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    mask[i] = all || in[i / o->page];
  __syncthreads();
}

/* A flag and a bound a page. */
static __device__ size_t view_room(const kv_gpu_at &at,
                                   const kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  size_t pages = (size_t)pages_of(lane->n, o->page);
  return pages * (sizeof(uint8_t) + sizeof(float)) + 128;
}

KV_GPU_METHOD(quest, .arrive = kv_on_arrive<arrive>,
              .view = kv_on_view_apart<view, view_room, 96>);
