/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/parts/ring.h"
#include <string.h>

kv_meta kv_ring_meta(const kv_shape *s, int window) {
  return (kv_meta){.name = "query ring",
                   .bytes =
                       kv_ring_floats(s, window) * kv_dtype_size(s->dtype)};
}

void kv_ring_add(const kv_at *at, const kv_lane *lane, const kv_rows *rows,
                 int window, float *ring) {
  size_t d = (size_t)at->shape->d, size = (size_t)lane->queries * d;
  for (int r = 0; r < rows->rows; r++) {
    size_t place = (size_t)((rows->first + r) % window);
    const float *q = rows->q + kv_rows_at(rows, r, 0) * d;
    memcpy(ring + place * size, q, size * sizeof *q);
  }
}
