/* SPDX-License-Identifier: Apache-2.0
 *
 * Twilight: twin of ref/methods/twilight.c, which defines what is computed.
 * Copies are in the lane's state as there. A thread codes a key, and estimates
 * an entry (one chain). A non-candidate has an estimate below all others and no
 * mass. Cost: O(d) a token; O(d n) a query head and step.
 */
#include "gpu/lane/entry.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/ground/softcap.h"
#include "ref/methods/twilight.h"

/* --- the copy ------------------------------------------------------------- */

static __device__ uint8_t *copy_of(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                   int i) {
  const params *o = (const params *)at.params;
  size_t stride = (size_t)copy_stride(o, at.layer->shape.d);
  return (uint8_t *)kv_gpu_own(at, lane) + lane->id[i] * stride;
}

static __device__ void code(const params *o, int d, const kv_gpu_row &key,
                            uint8_t *to) {
  float least = kv_gpu_element(key, 0), most = least;
  int plane = code_bytes(o, d);
  for (int x = 1; x < d; x++) {
    float k = kv_gpu_element(key, x);
    least = kv_min(least, k);
    most = kv_max(most, k);
  }
  float scale = scale_of(o, least, most), min = kept_half(least);
  ((uint16_t *)to)[0] = kv_to_f16(scale);
  ((uint16_t *)to)[1] = kv_to_f16(min);
  for (int b = 0; b < plane; b++) {
    uint32_t byte = 0;
    for (int x = b, shift = 0; x < d; x += plane, shift += bits_of(o))
      byte |= code_of(o, kv_gpu_element(key, x), scale, min) << shift;
    to[RANGE + b] = (uint8_t)byte;
  }
}

static __device__ void arrive(kv_gpu_at &at, kv_gpu_lane *lane, int first) {
  const params *o = (const params *)at.params;
  const kv_gpu_layer &l = *at.layer;
  if (l.layer < o->skip) return;
  for (int i = first + kv_thread(); i < lane->n; i += KV_BLOCK)
    code(o, l.shape.d, kv_gpu_key_row(l, lane, i), copy_of(at, lane, i));
  __syncthreads();
}

/* --- the choice ----------------------------------------------------------- */

/* The logit of a copy. */
static __device__ float estimate(const kv_gpu_at &at, const kv_gpu_lane *lane,
                                 int i, const float *q) {
  const params *o = (const params *)at.params;
  const kv_shape &s = at.layer->shape;
  const uint8_t *copy = copy_of(at, lane, i);
  float scale = kv_from_finite_f16(((const uint16_t *)copy)[0]);
  float min = kv_from_finite_f16(((const uint16_t *)copy)[1]), acc = 0;
  int plane = code_bytes(o, s.d), bits = bits_of(o), shift = 0;
  for (int from = 0; from < s.d; from += plane, shift += bits)
    for (int x = from; x < s.d && x < from + plane; x++) {
      int c = copy[RANGE + x - from] >> shift & ((1 << bits) - 1);
      acc = kv_fma(q[x], kv_fma((float)c, scale, min), acc);
    }
  return kv_logit(acc, s.scale, s.softcap);
}

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &q, uint8_t *mask) {
  const params *o = (const params *)at.params;
  int n = lane->n;
  bool all = at.layer->layer < o->skip;
  float *s = KV_GPU_TAKE(at, float, n);
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    bool in = !q.within || q.within[i];
    s[i] = in && !all ? estimate(at, lane, i, q.q) : kv_float(0xff800000u);
    keep[i] = 1;
  }
  __syncthreads();
  if (!all) kv_gpu_top_p(at, s, n, o->p, keep);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    mask[i] = keep[i] && (!q.within || q.within[i]);
  __syncthreads();
}

/* An estimate and a flag an entry. */
static __device__ size_t view_room(const kv_gpu_at &, const kv_gpu_lane *lane) {
  return (size_t)lane->n * (sizeof(float) + sizeof(uint8_t)) + 128;
}

KV_GPU_METHOD(twilight, .arrive = kv_on_arrive<arrive>,
              .view = kv_on_view_apart<view, view_room>);
