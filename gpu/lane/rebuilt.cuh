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

#include "gpu/block/async.h"
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

/* Columns x .. x + 3 of a plain row; x and the row's length are multiples of
 * 4. */
KV_DEVICE void kv_rebuilt_read(const kv_gpu_row &row, int x, float *to) {
  struct alignas(8) two {
    uint32_t word[2];
  };
  if (row.type == KV_F32) {
    kv_quad q = *(const kv_quad *)((const float *)row.at + x);
    KV_UNROLL
    for (int e = 0; e < 4; e++) to[e] = q.x[e];
    return;
  }
  two w = *(const two *)((const uint16_t *)row.at + x);
  kv_gpu_widen_two((kv_dtype)row.type, w.word[0], to);
  kv_gpu_widen_two((kv_dtype)row.type, w.word[1], to + 2);
}

/* Rotates columns x .. x + 3 of a key back by `turn`: kv_gpu_back of four. */
KV_DEVICE void kv_rebuilt_unturn(const kv_gpu_rebuilt &r, const kv_gpu_row &row,
                                 const float *turn, int d, int x, float *y) {
  bool apart = r.turned != KV_GPU_INTERLEAVED, first = x < d / 2;
  float other[4] = {y[1], -y[0], y[3], -y[2]}; /* what RoPE pairs them with */
  const kv_quad *by = (const kv_quad *)(turn + x);
  if (apart) {
    kv_rebuilt_read(row, first ? x + d / 2 : x - d / 2, other);
    by = (const kv_quad *)(turn + 2 * (x % (d / 2)));
  }
  kv_quad a = by[0], b = apart ? by[1] : a;
  const float sine[4] = {a.x[0], apart ? a.x[2] : a.x[0],
                         apart ? b.x[0] : a.x[2], apart ? b.x[2] : a.x[2]};
  const float cosine[4] = {a.x[1], apart ? a.x[3] : a.x[1],
                           apart ? b.x[1] : a.x[3], apart ? b.x[3] : a.x[3]};
  KV_UNROLL
  for (int e = 0; e < 4; e++)
    y[e] = kv_fma(apart && !first ? -other[e] : other[e], sine[e],
                  kv_mul(y[e], cosine[e]));
}

/* Columns x .. x + 3, as far as there are, of token t, which is a plain row; a
 * key's rotated back. x is a multiple of 4. */
KV_DEVICE void kv_rebuilt_back(const kv_gpu_layer &l, const kv_gpu_rebuilt &r,
                               kv_rebuilt_side a, int32_t t, int x, float *to) {
  kv_gpu_row row = kv_rebuilt_row(l, r, a, r.place[t]);
  const float *turn = a.key ? kv_gpu_turn_of(l, (uint32_t)t) : nullptr;
  int width = kv_rebuilt_width(l.shape, a.key);
  if (width % 8 == 0) {
    kv_rebuilt_read(row, x, to);
    if (turn) kv_rebuilt_unturn(r, row, turn, width, x, to);
    return;
  }
  KV_ROLLED
  for (int e = 0; e < 4; e++) {
    float y = 0;
    if (x + e < width && turn) {
      kv_gpu_pair p = kv_gpu_pair_of(r.turned, width, x + e);
      y = kv_gpu_back(p, turn, x + e, kv_gpu_element(row, p.first),
                      kv_gpu_element(row, p.second));
    } else if (x + e < width) {
      y = kv_gpu_element(row, x + e);
    }
    kv_gpu_push(to, y);
  }
}

/* Columns x .. x + 3 of the mean of the references that latent vector `number`
 * names, added up nearest first; otherwise as kv_rebuilt_back. */
KV_DEVICE void kv_rebuilt_mean(const kv_gpu_layer &l, const kv_gpu_rebuilt &r,
                               kv_rebuilt_side a, int number, int x,
                               float *mean) {
  const int32_t *named = r.named + (size_t)number * (size_t)r.how.nearest;
  float sum[4] = {};
  int n = 0;
  for (; n < r.how.nearest && named[n] != KV_NO_TOKEN; n++) {
    float y[4] = {};
    kv_rebuilt_back(l, r, a, named[n], x, y);
    KV_UNROLL
    for (int e = 0; e < 4; e++) sum[e] = kv_add(sum[e], y[e]);
  }
  KV_UNROLL
  for (int e = 0; e < 4; e++) mean[e] = kv_div(sum[e], (float)n);
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
