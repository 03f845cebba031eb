/* SPDX-License-Identifier: Apache-2.0
 *
 * DeltaKV on a device: the twin of ref/methods/deltakv.c, which defines what is
 * computed. The state of a lane is laid out as there. Tokens are coded by the
 * kernels of gpu/parts/residual.cuh.
 *
 * Allowed cas: kv_run_in_order<deltakv_rule>,
 *   nvcc's path for shared memory, where the word of what failed never is
 * Allowed cas: kv_run_code<deltakv_rule>,
 *   nvcc's path for shared memory, where the word of what failed never is
 * Allowed local: kv_run_in_order<deltakv_rule>,
 *   a tile and its room, passed by reference to what is not inlined
 * Allowed local: kv_run_keep<deltakv_rule>,
 *   what a format passes by reference, once an entry settled
 */
#include "gpu/parts/filter.cuh"
#include "gpu/parts/residual.cuh"

extern "C" {
#include "ref/methods/deltakv.h"
}

static __device__ const params &mine(const kv_gpu_at &at) {
  return *(const params *)at.params;
}

static __device__ kv_role role_of(const kv_gpu_at &at) {
  const params &o = mine(at);
  return o.retrieve == ALL
             ? KV_WHOLE
             : kv_full_role(&o.list, at.layer->shape.n_layers, at.layer->layer);
}

/* --- a layer that chooses ------------------------------------------------- */

static __device__ float *best_of(const kv_gpu_at &at, const kv_gpu_lane *l) {
  return (float *)((char *)kv_gpu_own(at, l) + VALUES);
}

/* Does it choose at this step? n: of so many candidates. */
static __device__ bool chooses(const kv_gpu_at &at, int *n) {
  const kv_shape &s = at.layer->shape;
  *n = contenders(&mine(at), &s, at.step);
  return kv_row_attends(&s, at.step) && role_of(at) == KV_CHOOSES;
}

static __device__ void observe(kv_gpu_at &at, kv_gpu_lane *lane,
                               const kv_gpu_rows &rows) {
  const params &o = mine(at);
  const kv_shape &s = at.layer->shape;
  int n;
  if (!chooses(at, &n) || n <= 0) return;
  if (at.step > s.prompt_len)
    kv_gpu_vote_best(at, lane, rows.q, o.score, o.by.sink, n,
                     best_of(at, lane));
  else
    kv_gpu_chunk_vote(at, lane, rows, o.score, o.by.sink, n,
                      (char *)kv_gpu_own(at, lane) + sums_at(&s, &o),
                      best_of(at, lane));
}

static __device__ bool publish(kv_gpu_at &at, const kv_gpu_lane *lane,
                               int lanes, void *message) {
  const params &o = mine(at);
  int n;
  if (!chooses(at, &n)) return false;
  float *score = KV_GPU_TAKE(at, float, n);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    float most = best_of(at, &lane[0])[i];
    for (int g = 1; g < lanes; g++)
      most = kv_max(most, best_of(at, &lane[g])[i]);
    score[i] = most;
  }
  __syncthreads();
  kv_gpu_choose_tokens(at, score, o.by.sink, n,
                       winners(&o, n, at.step <= at.layer->shape.prompt_len),
                       (kv_chosen *)message);
  return true;
}

static __device__ void view(kv_gpu_at &at, const kv_gpu_lane *lane,
                            const kv_gpu_query &, uint8_t *mask) {
  int from;
  const kv_chosen *m = (const kv_chosen *)kv_gpu_above(at, &from);
  kv_gpu_view_chosen(lane, role_of(at) == KV_FOLLOWS ? m : nullptr, mask);
}

/* --- a layer that is compressed ------------------------------------------- */

static __device__ bool is_full(const kv_gpu_at &at) {
  const params &o = mine(at);
  int i = kv_layer_above(&o.list, at.layer->layer);
  return i >= 0 && o.list.layer[i] == at.layer->layer;
}

struct deltakv_rule {
  static __device__ const kv_residual &how(const kv_gpu_at &at) {
    return mine(at).by;
  }
  static __device__ int from(const kv_gpu_at &at) {
    int end = *(const int32_t *)kv_gpu_own(at, at.layer->lane);
    return end < mine(at).by.sink ? mine(at).by.sink : end;
  }
  static __device__ int end(const kv_gpu_at &at) {
    return compressed_end(&mine(at), at.step);
  }
  static __device__ bool whole(const kv_gpu_at &at) { return is_full(at); }
  static __device__ int host(const kv_gpu_at &at) {
    return mine(at).tier == HOST ? (int)HOST : -1;
  }
  static __device__ void done(const kv_gpu_at &at, const kv_gpu_lane *lane,
                              int end) {
    if (kv_thread() == 0) *(int32_t *)kv_gpu_own(at, lane) = end;
  }
  static __device__ float *kept(const kv_gpu_at &at, const kv_gpu_lane *lane) {
    return best_of(at, lane) + at.layer->shape.n_tokens;
  }
};

KV_GPU_METHOD(deltakv, .view = kv_on_view_apart<view, kv_gpu_no_room>,
              .observe = kv_on_observe<observe>,
              .compress_layer = kv_gpu_start_residual<deltakv_rule>,
              .publish = kv_on_publish<publish>);
