/* SPDX-License-Identifier: Apache-2.0
 *
 * Hard-KV on a device: the twin of ref/methods/hardkv.c. One block a lane; the
 * queries of the window vote one after another, an entry a thread.
 *
 * Allowed cas: kv_run_compress<compress_lane>,
 *   nvcc's path for shared memory, where its sums never are
 * Allowed local: kv_run_compress<compress_lane>,
 *   a poll and a hook's kv_gpu_at, passed by reference to what is not inlined
 */
#include "gpu/parts/cascade.cuh"
#include "gpu/parts/ring.cuh"
#include "gpu/parts/scorers.cuh"
#include "ref/methods/hardkv.h"

static __device__ float *ring_of(const kv_gpu_at &at, const kv_gpu_lane *lane) {
  return (float *)((char *)kv_gpu_own(at, lane) +
                   kv_hard_ring((const params *)at.params));
}

static __device__ float *temperatures_of(const kv_gpu_at &at,
                                         const kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  return (float *)((char *)kv_gpu_own(at, lane) +
                   kv_hard_temperatures(&at.layer->shape, o));
}

static __device__ void view(kv_gpu_at &, const kv_gpu_lane *lane,
                            const kv_gpu_query &, uint8_t *in) {
  kv_gpu_cascade_view(lane, in);
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params *o = (const params *)at.params;
  kv_gpu_ring_add(at, lane, rows, o->v.window, ring_of(at, lane));
  if (!kv_hard_scores(o) || o->s.rows == 0) return;
  kv_gpu_rows last = rows;
  int skip = kv_hard_skip(o, rows.rows);
  size_t from = (size_t)skip * (size_t)rows.places;
  last.first += skip;
  last.rows -= skip;
  if (rows.q) last.q += from * (size_t)at.layer->shape.d;
  if (rows.p) last.p += from * rows.stride;
  kv_gpu_score_observe(at, lane, last, &o->s);
  __syncthreads();
}

/* --- compression --------------------------------------------------------- */

/* When the cosines of adapter rkv are made. */
struct hardkv_rule {
  static __device__ bool due(const kv_gpu_at &at, const kv_gpu_lane *lane) {
    const params *o = (const params *)at.params;
    return o->v.adapter == KV_ADAPT_RKV && lane->n > o->lower;
  }
  static __device__ bool counts(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                int i) {
    const params *o = (const params *)at.params;
    return o->v.redundant == KV_REDUNDANT_ALL ||
           kv_gpu_cascade_asks(kv_hard_cascade(o), lane, i);
  }
  static __device__ float least(const kv_gpu_at &at) {
    return ((const params *)at.params)->v.threshold;
  }
};

/* The scorer's word of every entry of the lane, in `all`. */
static __device__ void score(kv_gpu_at &at, const kv_gpu_lane *lane,
                             float *all) {
  const params *o = (const params *)at.params;
  size_t used = at.used;
  int first, n = kv_score_span(&o->s, lane->n, &first);
  const float *some = n > 0 ? kv_gpu_score(at, lane, &o->s, first, n) : nullptr;
  float most = n > 0 ? kv_gpu_largest(some, n) : 0;
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK)
    all[i] = i >= first && i < first + n ? some[i - first] : most;
  __syncthreads();
  at.used = used;
}

/* Layer 0's temperatures, where this is another one. */
static __device__ void take_temperatures(const kv_gpu_at &at,
                                         const kv_gpu_lane *lane) {
  int from, w = ((const params *)at.params)->v.window;
  const float *above = (const float *)kv_gpu_above(at, &from);
  float *own = temperatures_of(at, lane);
  for (int i = kv_thread(); above && i < w; i += KV_BLOCK)
    own[i] = above[(size_t)lane->lane * (size_t)w + (size_t)i];
  __syncthreads();
}

static __device__ void compress(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  kv_cascade c = kv_hard_cascade(o);
  kv_gpu_poll p = kv_gpu_poll_open(at, lane, o->v);
  uint8_t *flag = KV_GPU_TAKE(at, uint8_t, lane->n);
  if (kv_hard_scores(o)) {
    float *all = KV_GPU_TAKE(at, float, lane->n);
    score(at, lane, all);
    p.score = all;
  }
  p.n = kv_gpu_cascade_asked(c, lane, flag, p.entry);
  kv_gpu_poll_ask(at, lane, o->v, ring_of(at, lane), temperatures_of(at, lane),
                  p);
  kv_gpu_cascade_compress(at, lane, c, p);
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  if (lane->n > o->lower) {
    take_temperatures(at, lane);
    compress(at, lane);
  }
  if (kv_hard_scores(o)) kv_gpu_score_forget(at, lane, &o->s);
}

/* variant=code, of the first layer: its temperatures, for all below it. */
static __device__ bool publish(kv_gpu_at &at, const kv_gpu_lane *lane,
                               int lanes, void *message) {
  const params *o = (const params *)at.params;
  int from, w = o->v.window;
  if (kv_gpu_above(at, &from)) return false;
  if (!kv_hard_compresses(o, &at.layer->shape, at.step)) return false;
  for (int i = kv_thread(); i < lanes * w; i += KV_BLOCK)
    ((float *)message)[i] = temperatures_of(at, &lane[i / w])[i % w];
  __syncthreads();
  return true;
}

static void on_compress(void *s, const kv_gpu_layer *l) {
  kv_gpu_start_similar<hardkv_rule>(s, l);
  kv_on_compress_lane<compress_lane>(s, l);
}

KV_GPU_METHOD(hardkv, .view = kv_on_view_apart<view, kv_gpu_no_room>,
              .observe = kv_on_observe<observe>, .compress_lane = on_compress,
              .publish = kv_on_publish<publish>);
