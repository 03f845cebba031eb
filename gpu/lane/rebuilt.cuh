/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads tokens of a layer that holds latent vectors (gpu/shared/rebuilt.h), for
 * the kernels of gpu/backend/rebuilt*. Every function is called by any single
 * thread, for itself, has no barrier and cannot fail. A token's vector is all
 * lanes' K, then their V; column x of a side of a lane is its element
 * kv_rebuilt_first() + x.
 */
#ifndef KV_GPU_LANE_REBUILT_CUH
#define KV_GPU_LANE_REBUILT_CUH

#include "gpu/lane/entry.cuh"
#include "gpu/shared/rebuilt.h"

/* K or V of a lane. */
typedef struct kv_rebuilt_side {
  int lane;
  bool key;
} kv_rebuilt_side;

/* Columns of a side; where it begins in a vector; elements of a vector. */
KV_DEVICE int kv_rebuilt_width(const kv_shape &s, bool key) {
  return key ? s.d : s.d_v;
}
KV_DEVICE int kv_rebuilt_first(const kv_gpu_layer &l, kv_rebuilt_side a) {
  return a.key ? a.lane * l.shape.d
               : l.lanes * l.shape.d + a.lane * l.shape.d_v;
}
KV_DEVICE int kv_rebuilt_vector(const kv_gpu_layer &l) {
  return l.lanes * (l.shape.d + l.shape.d_v);
}

/* How many tokens the step attends. */
KV_DEVICE int kv_rebuilt_attended(const kv_gpu_rebuilt &r) {
  return r.count ? *r.count : r.attended;
}

/* Plain row p of a side. */
KV_DEVICE kv_gpu_row kv_rebuilt_row(const kv_gpu_layer &l,
                                    const kv_gpu_rebuilt &r, kv_rebuilt_side a,
                                    int p) {
  if (!r.k) {
    const kv_gpu_lane &lane = l.lane[a.lane];
    return kv_gpu_plain_row(kv_gpu_raw_at(a.key ? lane.k_raw : lane.v_raw, p),
                            l.shape.dtype);
  }
  size_t at = (size_t)a.lane * (size_t)r.rows + (size_t)p;
  size_t each = (size_t)kv_rebuilt_width(l.shape, a.key) *
                (l.shape.dtype == KV_F32 ? 4 : 2);
  return kv_gpu_plain_row((a.key ? r.k : r.v) + at * each, l.shape.dtype);
}

/* Column x of token t, which is a plain row; a key's rotated back. */
KV_DEVICE float kv_rebuilt_back(const kv_gpu_layer &l, const kv_gpu_rebuilt &r,
                                kv_rebuilt_side a, int32_t t, int x) {
  kv_gpu_row row = kv_rebuilt_row(l, r, a, r.place[t]);
  const float *turn = a.key ? kv_gpu_turn_of(l, (uint32_t)t) : nullptr;
  if (!turn) return kv_gpu_element(row, x);
  kv_gpu_pair p = kv_gpu_pair_of(r.turned, l.shape.d, x);
  return kv_gpu_back(p, turn, x, kv_gpu_element(row, p.first),
                     kv_gpu_element(row, p.second));
}

/* Column x of the mean of the references that latent vector `number` names,
 * added up nearest first. */
KV_DEVICE float kv_rebuilt_mean(const kv_gpu_layer &l, const kv_gpu_rebuilt &r,
                                kv_rebuilt_side a, int number, int x) {
  const int32_t *named = r.named + (size_t)number * (size_t)r.how.nearest;
  float sum = 0;
  int n = 0;
  for (; n < r.how.nearest && named[n] != KV_NO_TOKEN; n++)
    sum = kv_add(sum, kv_rebuilt_back(l, r, a, named[n], x));
  return kv_div(sum, (float)n);
}

/* Element i of latent vector `number`. */
KV_DEVICE float kv_rebuilt_latent(const kv_gpu_rebuilt &r, int number, int i) {
  return kv_gpu_format_delta::get(
      r.how, r.latent + (size_t)number * (size_t)r.bytes, i);
}

/* Element `at` of a decoded vector: the product of its row of the last layer,
 * plus that layer's bias, and the mean if tokens name references; without a
 * decoder only the mean. */
KV_DEVICE float kv_rebuilt_of(const kv_gpu_rebuilt &r, float product, int at,
                              float mean) {
  float y = kv_add(product, 0.0f);
  if (!r.by.deep) return mean;
  if (r.by.last_bias) y = kv_add(y, r.by.last_bias[at]);
  return r.how.nearest ? kv_add(y, mean) : y;
}

/* Rotates pair `number` of token t's key, row [d], to its position, in place.
 */
KV_DEVICE void kv_rebuilt_turn(const kv_gpu_layer &l, const kv_gpu_rebuilt &r,
                               int32_t t, int number, float *row) {
  const float *turn = kv_gpu_turn_of(l, (uint32_t)t);
  int x = r.turned == KV_GPU_INTERLEAVED ? 2 * number : number;
  kv_gpu_pair p = kv_gpu_pair_of(r.turned, l.shape.d, x);
  if (!turn) return;
  float x1 = row[p.first], x2 = row[p.second];
  row[p.first] = kv_gpu_forth(p, turn, p.first, x1, x2);
  row[p.second] = kv_gpu_forth(p, turn, p.second, x1, x2);
}

#endif
