/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel box_bound: u[t] is Quest's bound (arithmetic 5) of a query q[d]
 * over box t of n, which has the least (lo) and the largest (hi) of every
 * element x of a page's keys. Boxes lie in tiles of 16; how, and what room u
 * needs, says ref/kernels/kernels.h. Vector lanes are boxes, each one chain of
 * rounded additions over x. Part of ref/kernels/kernels.c, which includes the
 * vectors (ref/kernels/vec.h) before.
 *
 * v_max may return either zero for a -0 and a +0: the sum starts from +0, can
 * never become -0, and adding either zero to it gives the same bits.
 */
#ifndef KV_REF_KERNELS_BOUND_H
#define KV_REF_KERNELS_BOUND_H

enum { BOXES = 16, PARTS = BOXES / LANES }; /* of a tile: boxes, vectors */

/* u of all boxes of `tiles` neighbouring tiles, 1 or 4, at once: their chains
 * hide each other's latency. lo, hi: where the first tile begins; type: of
 * their elements. */
INLINE void bound_tiles(kv_dtype type, int tiles, int d, const float *q,
                        bytes *lo, bytes *hi, float *u) {
  const size_t stride = (size_t)d * BOXES;
  vec a[4 * PARTS];
  UNROLL for (int v = 0; v < tiles * PARTS; v++) a[v] = v_one(0.0f);
  for (int x = 0; x < d; x++) {
    const vec one = v_one(q[x]);
    UNROLL for (int v = 0; v < tiles * PARTS; v++) {
      size_t at = (size_t)(v / PARTS) * stride + (size_t)x * BOXES +
                  (size_t)(v % PARTS * LANES);
      vec low = v_mul(one, vec_of(type, lo, at));
      vec high = v_mul(one, vec_of(type, hi, at));
      a[v] = v_add(a[v], v_max(low, high));
    }
  }
  UNROLL for (int v = 0; v < tiles * PARTS; v++) v_store(u + v * LANES, a[v]);
}

/* The kernel, of elements of a type; n is rounded up to whole tiles. */
INLINE void bound_as(kv_dtype type, int n, int d, const float *q, bytes *lo,
                     bytes *hi, float *u) {
  const size_t step = (size_t)d * BOXES * kv_dtype_size(type);
  int t = 0;
  for (; t + 3 * BOXES < n; t += 4 * BOXES, lo += 4 * step, hi += 4 * step)
    bound_tiles(type, 4, d, q, lo, hi, u + t);
  for (; t < n; t += BOXES, lo += step, hi += step)
    bound_tiles(type, 1, d, q, lo, hi, u + t);
}

/* kv_kernels.box_bound. */
static void box_bound(int n, int d, const float *q, const void *lo,
                      const void *hi, kv_dtype type, float *u) {
  switch (type) {
  case KV_F16:
    bound_as(KV_F16, n, d, q, lo, hi, u);
    break;
  case KV_BF16:
    bound_as(KV_BF16, n, d, q, lo, hi, u);
    break;
  case KV_F32:
    bound_as(KV_F32, n, d, q, lo, hi, u);
    break;
  }
}

#endif
