/* SPDX-License-Identifier: Apache-2.0
 *
 * Hard-KV on a device: the twin of ref/methods/hardkv.c. One block a lane; the
 * queries of the window vote one after another, an entry a thread.
 */
#include "gpu/parts/votes.cuh"
#include "ref/methods/hardkv.h"

static __device__ float *temperatures_of(const kv_gpu_at &at,
                                         const kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  return (float *)((char *)kv_gpu_own(at, lane) +
                   kv_hard_ring(&at.layer->shape, o));
}

static __device__ uint8_t *mask_of(const kv_gpu_at &at,
                                   const kv_gpu_lane *lane) {
  return (uint8_t *)temperatures_of(at, lane) +
         kv_hard_temperatures((const params *)at.params);
}

static __device__ bool is_read(const uint8_t *mask, uint32_t token) {
  return mask[token / 8] >> token % 8 & 1;
}

/* A thread has the tokens of a byte. */
static __device__ void arrive(kv_gpu_at &at, kv_gpu_lane *lane, int first) {
  uint8_t *mask = mask_of(at, lane);
  int from = (int)lane->id[first], end = (int)lane->id[lane->n - 1] + 1;
  for (int b = from / 8 + kv_thread(); b <= (end - 1) / 8; b += KV_BLOCK)
    for (int bit = 0; bit < 8; bit++)
      if (8 * b + bit >= from && 8 * b + bit < end) mask[b] |= 1 << bit;
  __syncthreads();
}

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &, uint8_t *in) {
  const uint8_t *mask = mask_of(at, lane);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    in[i] = is_read(mask, lane->id[i]);
  __syncthreads();
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  size_t d = (size_t)at.layer->shape.d, size = (size_t)lane->queries * d;
  float *ring = (float *)kv_gpu_own(at, lane);
  for (int r = 0; r < rows.rows; r++) {
    float *to = ring + (size_t)((rows.first + r) % o->v.window) * size;
    const float *q = rows.q + (size_t)r * (size_t)rows.places * d;
    for (int i = kv_thread(); i < (int)size; i += KV_BLOCK) to[i] = q[i];
    __syncthreads();
  }
}

/* --- settling ------------------------------------------------------------- */

/* Flags of the poll's entries that were chosen; returns how many. */
static __device__ int choose(const kv_gpu_at &at, const kv_gpu_lane *lane,
                             const kv_gpu_poll &p, uint8_t *chosen,
                             uint8_t *loose) {
  const params *o = (const params *)at.params;
  int n = 0;
  for (int i = kv_thread(); i < p.n; i += KV_BLOCK) {
    bool forced = kv_hard_forced(o, at.step, (int)lane->id[p.entry[i]]);
    chosen[i] = forced || p.votes[i] > 0;
    loose[i] = chosen[i] && !forced;
    n += chosen[i];
  }
  return kv_block_sum(n);
}

/* Of n chosen the worst of the loose ones go until upper are left. */
static __device__ void cut(kv_gpu_at &at, const kv_gpu_poll &p, int n,
                           const uint8_t *loose, uint8_t *chosen) {
  const params *o = (const params *)at.params;
  int over = n - o->upper;
  if (over <= 0) return;
  int32_t *list = KV_GPU_TAKE(at, int32_t, p.n);
  int m = kv_gpu_indexes(0, p.n, loose, true, p.order);
  for (int i = kv_thread(); i < m; i += KV_BLOCK) /* the younger first */
    list[i] = p.order[m - 1 - i];
  kv_gpu_scores(p.mass, p.n, p.g);
  kv_gpu_order(at, p.g, m, list);
  for (int i = kv_thread(); i < p.n; i += KV_BLOCK) p.g[i] = (float)p.votes[i];
  __syncthreads();
  kv_gpu_order(at, p.g, m, list);
  for (int i = kv_thread(); i < over; i += KV_BLOCK)
    chosen[list[m - 1 - i]] = 0;
  __syncthreads();
}

static __device__ void rewrite(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_poll &p, const uint8_t *chosen) {
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, lane->n);
  kv_gpu_flag_all(keep, lane->n, false);
  __syncthreads();
  for (int i = kv_thread(); i < p.n; i += KV_BLOCK)
    keep[p.entry[i]] = chosen[i];
  __syncthreads();
  kv_gpu_keep_mask(at, lane, keep);
}

/* Clears the bits of those that were not chosen; a thread has the tokens of a
 * byte, which are neighbours among the entries. */
static __device__ void hide(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_poll &p, const uint8_t *chosen) {
  uint8_t *mask = mask_of(at, lane);
  for (int i = kv_thread(); i < p.n; i += KV_BLOCK) {
    uint32_t byte = lane->id[p.entry[i]] / 8;
    if (i > 0 && lane->id[p.entry[i - 1]] / 8 == byte) continue;
    for (int j = i; j < p.n && lane->id[p.entry[j]] / 8 == byte; j++)
      if (!chosen[j]) mask[byte] &= (uint8_t) ~(1 << lane->id[p.entry[j]] % 8);
  }
  __syncthreads();
}

/* When the cosines of adapter rkv are made. */
struct hardkv_rule {
  static __device__ bool due(const kv_gpu_at &at, const kv_gpu_lane *lane) {
    const params *o = (const params *)at.params;
    return o->v.adapter == KV_ADAPT_RKV && lane->n > o->lower;
  }
  static __device__ float least(const kv_gpu_at &at) {
    return ((const params *)at.params)->v.threshold;
  }
};

static __device__ void settle_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  if (lane->n <= o->lower) return;
  kv_gpu_poll p = kv_gpu_poll_open(at, lane, o->v);
  uint8_t *chosen = KV_GPU_TAKE(at, uint8_t, lane->n);
  uint8_t *loose = KV_GPU_TAKE(at, uint8_t, lane->n);
  const uint8_t *mask = mask_of(at, lane);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    chosen[i] = is_read(mask, lane->id[i]);
  __syncthreads();
  p.n = kv_gpu_indexes(0, lane->n, chosen, true, p.entry);
  kv_gpu_poll_ask(at, lane, o->v, (const float *)kv_gpu_own(at, lane),
                  temperatures_of(at, lane), p);
  int n = choose(at, lane, p, chosen, loose);
  if (lane->n <= o->upper) {
    hide(at, lane, p, chosen);
    return;
  }
  cut(at, p, n, loose, chosen);
  rewrite(at, lane, p, chosen);
}

static void on_settle(void *s, const kv_gpu_layer *l) {
  kv_gpu_start_similar<hardkv_rule>(s, l);
  kv_on_settle_lane<settle_lane>(s, l);
}

KV_GPU_METHOD(hardkv, .arrive = kv_on_arrive<arrive>,
              .view = kv_on_view_apart<view, kv_gpu_no_room>,
              .observe = kv_on_observe<observe>, .settle_lane = on_settle);
