/* SPDX-License-Identifier: Apache-2.0
 *
 * The softmax of a chunk of attention, for the kernels of gpu/backend: from the
 * logits of one head for KV_GPU_CHUNK entries their maximum m_c, the weights
 * p_j = e^(s_j - m_c) and their sum l_c, by one warp. The caller decides which
 * entries the chunk has and where their logits are; the order of entries
 * changes no bit.
 */
#ifndef KV_GPU_WEIGH_CUH
#define KV_GPU_WEIGH_CUH

#include "gpu/block/async.h"
#include "gpu/block/block.cuh"
#include "gpu/block/warp.h"
#include "gpu/shared/lane.h"

/* Entries that a thread weighs for a head: thread t of the warp has places 4 t
 * to 4 t + 3 of the chunk. */
constexpr int KV_WEIGH_EACH = (int)KV_GPU_CHUNK / (int)KV_WARP;

/* What a warp weighs. */
typedef struct kv_weighed {
  int head, c, n; /* query head of the layer; chunk; entries in it */
  bool keep;      /* m_c and l_c are written to l.top and l.mass */
} kv_weighed;

/* Called by all threads of a warp together; others of the block may diverge. s:
 * the thread's four logits, of which those past a.n do not count. Writes its
 * four weights to p [KV_GPU_CHUNK] in shared memory (0 past a.n), which other
 * warps may read after a barrier. report(): called by a thread if one of its
 * four logits is not finite, even past a.n. No barrier of the block. */
template <class Wrong>
KV_DEVICE void kv_chunk_weigh(const kv_gpu_layer &l, const kv_weighed &a,
                              kv_quad s, float *p, const Wrong &report) {
  int lane = kv_thread() % KV_WARP, j = KV_WEIGH_EACH * lane;
  uint32_t most = 0;
  int64_t mass = 0;
  bool wrong = false;
  KV_UNROLL
  for (int u = 0; u < KV_WEIGH_EACH; u++) {
    uint32_t key = j + u < a.n ? kv_key(s.x[u]) : 0;
    most = key > most ? key : most;
    wrong |= !kv_finite(s.x[u]);
  }
  if (wrong) report();
  float top = kv_of_key(kv_warp_max(most));
  KV_UNROLL
  for (int u = 0; u < KV_WEIGH_EACH; u++) {
    s.x[u] = j + u < a.n ? kv_expm(kv_sub(s.x[u], top)) : 0;
    mass += kv_fix_exp(s.x[u]);
  }
  *(kv_quad *)&p[j] = s;
  mass = kv_warp_mass(mass);
  if (lane > 0 || !a.keep) return;
  size_t at = (size_t)a.head * (size_t)l.chunks + (size_t)a.c;
  l.top[at] = top;
  l.mass[at] = kv_unfix(mass);
}

/* --- a chunk whose logits are in shared memory --------------------------- */

/* What a block computes: chunk c of a lane for `count` query heads from `first`
 * on, numbers of the layer; n entries, below 1 if the lane ends before it.
 */
typedef struct kv_hand {
  int lane, first, count, c, n;
} kv_hand;

/* The hand of the calling block, by its place (c, lane, z) in the grid: it has
 * the z-th HEADS heads. all: entries of the lane. */
template <int HEADS>
KV_DEVICE kv_hand kv_hand_take(const kv_gpu_layer &l, int all) {
  int group = l.shape.n_heads / l.lanes, first = (int)blockIdx.z * HEADS;
  int left = group - first, c = (int)blockIdx.x, n = all - c * KV_GPU_CHUNK;
  return {(int)blockIdx.y, (int)blockIdx.y * group + first,
          left < HEADS ? left : HEADS, c,
          n < KV_GPU_CHUNK ? n : (int)KV_GPU_CHUNK};
}

/* Records in l.bad a logit of the thread's s that is not finite, if it is the
 * lane's first such; name: [n] the names of the chunk's entries there. */
KV_DEVICE void kv_hand_report(const kv_gpu_layer &l, const kv_hand &a, int head,
                              const kv_quad &s, const int32_t *name) {
  int j = KV_WEIGH_EACH * (kv_thread() % KV_WARP);
  unsigned long long h =
      (unsigned)(head - a.lane * (l.shape.n_heads / l.lanes));
  for (int u = 0; u < KV_WEIGH_EACH && j + u < a.n; u++)
    if (!kv_finite(s.x[u]))
      atomicMin((unsigned long long *)&l.bad[a.lane],
                h << 32 | (unsigned)name[j + u]);
}

/* Called by all threads of the block together. p [HEADS][KV_GPU_CHUNK] in
 * shared memory has logits, which become weights; a warp has a head, and heads
 * past a.count repeat the last one. The caller has a barrier between writing p
 * and this; it ends with a barrier. */
template <int HEADS>
KV_DEVICE void kv_hand_weigh(const kv_gpu_layer &l, const kv_hand &a, float *p,
                             const int32_t *name) {
  for (int h = kv_thread() / KV_WARP; h < HEADS; h += KV_WARPS) {
    int head = a.first + (h < a.count ? h : a.count - 1);
    float *own = p + h * KV_GPU_CHUNK;
    kv_quad s = ((const kv_quad *)own)[kv_thread() % KV_WARP];
    kv_chunk_weigh(l, {head, a.c, a.n, h < a.count}, s, own,
                   [&] { kv_hand_report(l, a, head, s, name); });
  }
  __syncthreads();
}

#endif
