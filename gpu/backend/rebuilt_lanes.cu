/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that holds latent vectors (gpu/shared/rebuilt.h) for the lanes of a
 * replay (gpu/host/rebuilt.h): assembles latent vectors and names from the
 * parts in lanes' blocks, token by token as they are coded; and finds where
 * each token is now. A side of every lane has the same numbers of rows and of
 * blocks, because a token is coded in all of them at once.
 */
#include "gpu/lane/rebuilt.cuh"
#include "gpu/parts/latents.cuh"
#include "gpu/shared/device.h"

#include <assert.h>

/* --- what was coded ------------------------------------------------------- */

/* The part of block b's bytes that a slab has. */
static __device__ void gather_part(const kv_gpu_slab &s,
                                   const kv_gpu_rebuilt &r, int32_t b) {
  int64_t begin = kv_gpu_part_begin(r.bytes, s.part, s.parts);
  int64_t end = kv_gpu_part_begin(r.bytes, s.part + 1, s.parts);
  const char *from = kv_gpu_token_part(s, b, r.how.nearest);
  char *to = (char *)r.latent + (size_t)b * (size_t)r.bytes;
  for (int64_t x = begin + kv_thread(); x < end; x += KV_BLOCK)
    to[x] = from[x - begin];
}

/* Blocks that are not there yet; the grid's take turns. */
static __global__ void pack(const __grid_constant__ kv_gpu_layer l,
                            const __grid_constant__ kv_gpu_rebuilt r) {
  const kv_gpu_slab &first = l.lane[0].k_slab[KV_CODED];
  for (int b = *r.packed + (int)blockIdx.x; b < first.used;
       b += (int)gridDim.x) {
    for (int g = 0; g < l.lanes; g++) {
      gather_part(l.lane[g].k_slab[KV_CODED], r, b);
      gather_part(l.lane[g].v_slab[KV_CODED], r, b);
    }
    const int32_t *named = kv_gpu_token_named(first, b);
    int32_t *to = (int32_t *)r.named + (size_t)b * (size_t)r.how.nearest;
    for (int i = kv_thread(); i < r.how.nearest; i += KV_BLOCK)
      to[i] = named[i];
  }
}

static __global__ void packed(const __grid_constant__ kv_gpu_layer l,
                              int32_t *to) {
  if (kv_thread() == 0) *to = l.lane[0].k_slab[KV_CODED].used;
}

/* --- where tokens are ----------------------------------------------------- */

static __global__ void find(const __grid_constant__ kv_gpu_layer l,
                            const __grid_constant__ kv_gpu_rebuilt r) {
  const kv_gpu_lane &lane = l.lane[blockIdx.y];
  int way = (int)gridDim.x * KV_BLOCK;
  for (int i = (int)blockIdx.x * KV_BLOCK + kv_thread(); i < lane.n; i += way) {
    kv_cell_ref ref = l.lane[0].k[i];
    assert(lane.k[i].block == ref.block && lane.v[i].block == ref.block &&
           "a token is row or block of one number in all lanes");
    if (blockIdx.y == 0)
      ((int32_t *)r.place)[i] = ref.format == KV_RAW ? ref.block : ~ref.block;
  }
}

extern "C" void kv_gpu_start_rebuilt_lanes(void *stream, const kv_gpu_layer *l,
                                           const kv_gpu_rebuilt *r, int act) {
  constexpr unsigned BLOCKS = 64;
  if (act == KV_GPU_REBUILT_PACK) {
    KV_LAUNCH(stream, pack, BLOCKS, KV_BLOCK, *l, *r);
    KV_LAUNCH(stream, packed, 1u, KV_BLOCK, *l, r->packed);
    return;
  }
  unsigned blocks = (unsigned)(l->stride / KV_BLOCK + 1);
  dim3 grid(blocks < BLOCKS ? blocks : BLOCKS, (unsigned)l->lanes);
  KV_LAUNCH(stream, find, grid, KV_BLOCK, *l, *r);
}
