/* SPDX-License-Identifier: Apache-2.0
 *
 * The twin of the method of tests/made/sieve.h.
 */
#include "gpu/lane/method.cuh"
#include "gpu/lane/verbs.cuh"
#include "tests/made/sieve.h"

static __device__ const sieve_picks *picked(const kv_gpu_at &at,
                                            const kv_gpu_lane *l) {
  int from;
  const sieve_message *m = (const sieve_message *)kv_gpu_above(at, &from);
  if (sieve_is(at.layer->layer) || !m) return nullptr;
  assert(m->step == at.step && "a message of the same step");
  return &m->of[l->lane];
}

static __device__ bool has(const sieve_picks *p, uint32_t id) {
  for (int i = 0; i < p->n; i++)
    if (p->id[i] == id) return true;
  return false;
}

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *l,
                            const kv_gpu_query &q, uint8_t *mask) {
  const sieve_picks *p = picked(at, l);
  (void)q;
  for (int i = kv_thread(); i < l->n; i += KV_BLOCK)
    mask[i] = !p || i == l->n - 1 || has(p, l->id[i]);
}

static __device__ float best_of(const kv_gpu_rows &rows, int i) {
  size_t row = (size_t)(rows.rows - 1) * (size_t)rows.places;
  float best = 0;
  for (int h = 0; h < rows.heads; h++) {
    float s = rows.s[(row + (size_t)h) * rows.stride + (size_t)i];
    if (h == 0 || s > best) best = s;
  }
  return best;
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *l,
                               const kv_gpu_rows &rows) {
  sieve_picks *p = (sieve_picks *)kv_gpu_own(at, l);
  int n = rows.entries;
  uint8_t *in = KV_GPU_TAKE(at, uint8_t, n);
  if (!sieve_is(at.layer->layer)) return;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) in[i] = 0;
  __syncthreads();
  if (kv_thread() == 0) {
    for (int picks = 0; picks < SIEVE_PICKS && picks < n; picks++) {
      int most = -1;
      for (int i = 0; i < n; i++)
        if (!in[i] && (most < 0 || best_of(rows, i) > best_of(rows, most)))
          most = i;
      in[most] = 1;
    }
    p->n = 0;
    for (int i = 0; i < n; i++)
      if (in[i]) p->id[p->n++] = l->id[i];
  }
  __syncthreads();
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *l) {
  const sieve_picks *p = picked(at, l);
  uint8_t *keep = KV_GPU_TAKE(at, uint8_t, l->n);
  if (!p) return;
  for (int i = kv_thread(); i < l->n; i += KV_BLOCK)
    keep[i] = i >= l->n - SIEVE_STAYS || has(p, l->id[i]);
  __syncthreads();
  kv_gpu_keep_mask(at, l, keep);
}

static __device__ bool publish(kv_gpu_at &at, const kv_gpu_lane *lane,
                               int lanes, void *message) {
  sieve_message *m = (sieve_message *)message;
  if (!sieve_is(at.layer->layer)) return false;
  if (kv_thread() == 0) {
    m->step = at.step;
    m->lanes = lanes;
  }
  for (int i = kv_thread(); i < lanes; i += KV_BLOCK)
    m->of[i] = *(const sieve_picks *)kv_gpu_own(at, &lane[i]);
  return true;
}

KV_GPU_HOOKS(sieve, 0, .view = kv_on_view<view>,
             .observe = kv_on_observe<observe>,
             .compress_lane = kv_on_compress_lane<compress_lane>,
             .publish = kv_on_publish<publish>);
