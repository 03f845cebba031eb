/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of one query head by plain loops on the host, arithmetic 1 and 3,
 * as what the kernels are compared with. k and v: [n][d] as attention reads
 * them.
 */
#ifndef KV_TESTS_BENCH_DEVICE_HOST_CUH
#define KV_TESTS_BENCH_DEVICE_HOST_CUH

#include "tests/bench/gpu/device_lanes.cuh"

static void host_logits(const lanes *w, int n, const float *q, const float *k,
                        float *s) {
  for (int i = 0; i < n; i++) {
    float a = 0;
    for (int x = 0; x < LANES_D; x++) a = kv_fma(q[x], k[i * LANES_D + x], a);
    s[i] = kv_add(kv_mul(a, w->layer.shape.scale), 0.0f);
  }
}

static float host_largest(int n, const float *s) {
  float best = s[0];
  for (int i = 1; i < n; i++) best = kv_max(best, s[i]);
  return best;
}

/* l_c of n <= KV_GPU_CHUNK entries, and a_c into part. */
static float host_chunk(int n, float top, const float *s, const float *v,
                        float *part) {
  int64_t mass = 0;
  memset(part, 0, LANES_D * sizeof *part);
  for (int j = 0; j < n; j++) {
    float p = kv_expm(kv_sub(s[j], top));
    mass += kv_fix(p);
    for (int x = 0; x < LANES_D; x++)
      part[x] = kv_fma(p, v[j * LANES_D + x], part[x]);
  }
  return kv_unfix(mass);
}

/* out: [LANES_D + 1] the output, then LSE. */
static void host_attend(int n, const float *s, const float *v, float *out) {
  float best = host_largest(n, s), all = 0, part[LANES_D];
  memset(out, 0, LANES_D * sizeof *out);
  for (int i = 0; i < n; i += KV_GPU_CHUNK) {
    int count = n - i < KV_GPU_CHUNK ? n - i : (int)KV_GPU_CHUNK;
    float top = host_largest(count, s + i), share = kv_expm(kv_sub(top, best));
    float mass = host_chunk(count, top, s + i, v + i * LANES_D, part);
    all = kv_fma(share, mass, all);
    for (int x = 0; x < LANES_D; x++) out[x] = kv_fma(share, part[x], out[x]);
  }
  for (int x = 0; x < LANES_D; x++) out[x] = kv_div(out[x], all);
  out[LANES_D] = kv_add(best, kv_log(all));
}

/* Lane i's first n rows of one side of the trace, for free(). */
static float *host_rows(const lanes *w, const char *side, int i, int n) {
  size_t row = (size_t)w->layer.shape.n_tokens * (size_t)LANES_D;
  size_t count = (size_t)n * (size_t)LANES_D;
  const uint16_t *from = (const uint16_t *)side + (size_t)i * row;
  uint16_t *half = bench_get(w->b, from, count);
  float *to = bench_room<float>(count);
  for (size_t x = 0; x < count; x++) to[x] = kv_from_f16(half[x]);
  free(half);
  return to;
}

/* All query heads of lane i over n rows of k and v, against what the device
 * has put into the layer's out. */
static void host_same_lane(const lanes *w, const char *what, int i, int n,
                           const float *k, const float *v) {
  const kv_gpu_layer *l = &w->layer;
  float *s = bench_room<float>((size_t)n), out[LANES_D + 1];
  for (int j = 0; j < w->lane[i].queries; j++) {
    size_t head = (size_t)(w->lane[i].first_head + j);
    float *q = bench_get(w->b, l->q + head * LANES_D, LANES_D);
    float *got = bench_get(w->b, l->out + head * (LANES_D + 1), LANES_D + 1);
    host_logits(w, n, q, k, s);
    host_attend(n, s, v, out);
    bench_same(what, got, out, sizeof out);
    free(got);
    free(q);
  }
  free(s);
}

#endif
