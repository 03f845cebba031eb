/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights of a chunk, arithmetic 3: m_c, p_j and l_c of one head from its
 * logits, by one warp. Which entries the chunk has, and where their logits are,
 * is the caller's matter; their order among themselves changes no bit.
 */
#ifndef KV_GPU_WEIGH_CUH
#define KV_GPU_WEIGH_CUH

#include "gpu/block/async.h"
#include "gpu/block/block.cuh"
#include "gpu/block/warp.h"
#include "gpu/shared/lane.h"

/* Entries that a thread weighs for a head: places 4 t to 4 t + 3 of the chunk,
 * t its number within the warp that has the head. */
constexpr int KV_WEIGH_EACH = (int)KV_GPU_CHUNK / (int)KV_WARP;

/* Chunk c of a query head of the layer, n entries; keep: m_c and l_c are
 * written. */
typedef struct kv_weighed {
  int head, c, n;
  bool keep;
} kv_weighed;

/* s: the thread's logits. p [KV_GPU_CHUNK] may be read by others after a
 * barrier. report(): called where one is not finite. */
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

#endif
