/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts how many numbers of each tier a lane may need, so that the page
 * manager (gpu/backend/pages.cu) can reserve pages. Counted on the device,
 * because the host gets a step's results only at its end. Free numbers of a
 * tier are reused, so a tier that takes m more rows needs as many numbers as it
 * has, or m more than it holds.
 *
 *   step     the rows that are not coded yet may become high; one of the high
 *            tier, low (LeanKV demotes one a step at most)
 *   block    of a prompt: any row that is not coded, and any of the high tier,
 *            may become low
 *   compressed  the numbers in use. Low pages stood from the right end of what
 *            the prompt reserved; now they come right behind the high ones,
 *            from where the page manager turns them into low ones
 *
 * A thread a lane.
 */
#include "gpu/block/block.cuh"
#include "gpu/shared/device.h"

/* How many rows of a lane a slab's tier has; 0: there is no such tier. */
typedef struct tier_now {
  int used, held, cap;
} tier_now;

static __device__ tier_now now_of(const kv_gpu_paged &p,
                                  const kv_gpu_lane *lane, int tier) {
  if (!p.tier[tier].tokens) return {0, 0, 0};
  const kv_gpu_slab &s = lane->k_slab[p.tier[tier].side[KV_SIDE_K].slab];
  return {s.used, s.held, s.cap};
}

/* Numbers of a tier that takes so many rows more. */
static __device__ int32_t with(const tier_now &t, int more) {
  int n = t.held + more;
  if (n > t.cap) n = t.cap;
  return n > t.used ? n : t.used;
}

/* The ids from `first` to before `end`, the other way round. */
static __device__ void turn_round(int32_t *ids, int first, int end) {
  for (int last = end - 1; first < last; first++, last--) {
    int32_t id = ids[first];
    ids[first] = ids[last];
    ids[last] = id;
  }
}

static __global__ void count(kv_gpu_layer l, kv_gpu_paged p, int when) {
  int i = (int)blockIdx.x * KV_BLOCK + kv_thread();
  if (i >= l.lanes) return;
  const kv_gpu_lane *lane = &l.lane[i];
  tier_now high = now_of(p, lane, KV_HIGH), low = now_of(p, lane, KV_LOW);
  int uncoded = lane->n - high.held - low.held;
  kv_pages_count n = {{high.used, low.used}};
  if (when == KV_GPU_COUNT_COMPRESSED) {
    kv_pages_count held = p.held[i];
    turn_round(p.table + (int64_t)i * p.entries,
               kv_pages_for(high.used, p.tier[KV_HIGH].tokens),
               held.of[KV_HIGH]);
  } else {
    bool block = when == KV_GPU_COUNT_BLOCK;
    n.of[KV_HIGH] = with(high, uncoded);
    if (low.cap) n.of[KV_LOW] = with(low, block ? uncoded + high.held : 1);
  }
  p.count[i] = n;
}

extern "C" void kv_gpu_start_count(void *stream, const kv_gpu_layer *l,
                                   const kv_gpu_paged *p, int when) {
  unsigned blocks = (unsigned)((l->lanes + KV_BLOCK - 1) / KV_BLOCK);
  KV_LAUNCH(stream, count, blocks, KV_BLOCK, *l, *p, when);
}
