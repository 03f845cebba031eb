/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain attention to compare a kernel's with: the reference's, over all entries
 * of a lane of the reference, which holds the rows that the kernel should have
 * read. C and C++; cmocka.h is included before. w: the layer that the kernel
 * was given, in the executor's memory.
 */
#ifndef KV_TESTS_GPU_PLAIN_H
#define KV_TESTS_GPU_PLAIN_H

#include "gpu/shared/lane.h"
#include "ref/backend/attend.h"

#include <stdlib.h>
#include <string.h>

/* to [l->queries][d_v + 1], as w->out has them: output and log-sum-exp of each
 * of the lane's heads, by its query in w->q over all entries of the lane. */
static inline void plain_output(const kv_gpu_layer *w, const kv_lane *l,
                                float *to) {
  size_t d = (size_t)l->shape->d, d_v = (size_t)l->shape->d_v;
  size_t m = (size_t)l->queries, n = (size_t)l->n;
  float *s = (float *)calloc(m * n, sizeof *s);
  float *out = (float *)calloc(m * (d_v + 1), sizeof *out);
  kv_attend_scratch x;
  kv_err e;
  kv_run run = {0, l->n};
  kv_view view = {1, l->n, &run};
  kv_lane_values values = {l, &view, 0, 0};
  assert_true(s && out);
  assert_int_equal(
      kv_attend_scratch_init(&x, (int)d, (int)d_v, l->queries, l->n, &e),
      KV_OK);
  kv_lane_logits(l->kernels, l, l->queries, w->q + (size_t)l->first_head * d, d,
                 0, l->n, NULL, 0, s, n, &x);
  kv_attend_rows(l->kernels, l->queries, l->n, (int)d_v, s, n,
                 kv_lane_value_rows, &values, &x, out, out + m * d_v);
  for (size_t h = 0; h < m; h++) {
    memcpy(to + h * (d_v + 1), out + h * d_v, d_v * sizeof *out);
    to[h * (d_v + 1) + d_v] = out[m * d_v + h];
  }
  kv_attend_scratch_release(&x);
  free(out);
  free(s);
}

/* Fails the test unless what the kernel left in w->out is that to the bit. */
static inline void plain_attention(const kv_gpu_layer *w, const kv_lane *l) {
  size_t each = (size_t)l->shape->d_v + 1, n = (size_t)l->queries * each;
  float *want = (float *)calloc(n, sizeof *want);
  assert_non_null(want);
  plain_output(w, l, want);
  assert_memory_equal(w->out + (size_t)l->first_head * each, want,
                      n * sizeof *want);
  free(want);
}

/* The same for all lanes, whose entries are the n fp32 rows k [lanes][n][d] and
 * v [lanes][n][d_v]. */
static inline void plain_rows(const kv_gpu_layer *w, int n, float *k,
                              float *v) {
  kv_shape s = w->shape;
  kv_needs needs;
  kv_layer_data data;
  kv_lane_room room;
  kv_lane lane;
  kv_err e;
  memset(&needs, 0, sizeof needs);
  memset(&data, 0, sizeof data);
  s.dtype = KV_F32;
  s.n_tokens = n;
  data.k = (const char *)k;
  data.v = (const char *)v;
  assert_int_equal(kv_lane_room_init(&room, n, &e), KV_OK);
  for (int i = 0; i < w->lanes; i++) {
    assert_int_equal(kv_lane_init(&lane, &s, &needs, kv_kernels_best(), i, &e),
                     KV_OK);
    lane.room = room;
    kv_lane_begin(&lane, &needs, &data);
    kv_lane_append(&lane, 0, n);
    plain_attention(w, &lane);
    kv_lane_release(&lane);
  }
  kv_lane_room_release(&room);
}

#endif
