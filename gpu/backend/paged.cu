/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over lanes whose coded rows lie in unified pages: logits and
 * outputs are, to the bit, those of attention over the same lanes in slots.
 * Arithmetic 1 and 3 say what may follow the pages and what may not:
 *
 *   a logit     one chain along d of one entry: any order of entries, so page
 *               by page (gpu/backend/paged_logits.cu)
 *   m_c, p, l_c a chunk's entries are 128 neighbours of the lane; among them
 *               the order changes nothing
 *   a_c         a chain over the chunk's entries in the order of the lane
 *   join        in the order of chunks
 *
 * A block of values has a chunk of the lane and reads its rows where their
 * references say; both tiers stand in it as they do in the lane, and a row's
 * tier is the same for all threads. Codes and metadata are read once for up to
 * 8 heads of a lane; what is computed for a head is 4 bytes a token, written
 * and read.
 *
 * Every head sees all entries of its lane; the layer's fields are those of
 * attend.cu.
 */
#include "gpu/lane/entry.cuh"
#include "gpu/lane/values_paged.cuh"
#include "gpu/lane/weigh.cuh"
#include "gpu/shared/device.h"

enum { CHUNK = KV_BLOCK }; /* arithmetic 3: 128 */
constexpr int MOST = 8;    /* heads that share a pass over V */

/* --- values --------------------------------------------------------------- */

/* The thread's logits of a head; past the end 0. */
static __device__ kv_quad logits_of(const kv_gpu_layer &l, const kv_hand &a,
                                    int head) {
  const float *logit = l.s + (size_t)head * (size_t)l.stride + a.c * CHUNK;
  int j = KV_WEIGH_EACH * (kv_thread() % KV_WARP);
  kv_quad s = {};
  if (j + KV_WEIGH_EACH <= a.n) return *(const kv_quad *)&logit[j];
  KV_UNROLL
  for (int u = 0; u < KV_WEIGH_EACH; u++)
    if (j + u < a.n) s.x[u] = logit[j + u];
  return s;
}

/* Records as the lane's first what is not finite of the thread's logits. */
static __device__ void report(const kv_gpu_layer &l, const kv_hand &a, int head,
                              const kv_quad &s) {
  unsigned long long h = (unsigned)(head - l.lane[a.lane].first_head);
  int entry = a.c * CHUNK + KV_WEIGH_EACH * (kv_thread() % KV_WARP);
  KV_UNROLL
  for (int u = 0; u < KV_WEIGH_EACH; u++)
    if (!kv_finite(s.x[u]))
      atomicMin((unsigned long long *)&l.bad[a.lane],
                h << 32 | (unsigned)(entry + u));
}

/* Of every head, a warp for each; p [HEADS][CHUNK] may be read after a barrier.
 * Heads past the last repeat the last one. */
template <int HEADS>
static __device__ void weights(const kv_gpu_layer &l, const kv_hand &a,
                               float *p) {
  for (int h = kv_thread() / KV_WARP; h < HEADS; h += KV_WARPS) {
    int head = a.first + (h < a.count ? h : a.count - 1);
    kv_quad s = logits_of(l, a, head);
    kv_chunk_weigh(l, {head, a.c, a.n, h < a.count}, s, p + h * CHUNK,
                   [&] { report(l, a, head, s); });
  }
}

static __device__ float *part_of(const kv_gpu_layer &l, const kv_hand &a,
                                 int h) {
  size_t chunk = (size_t)(a.first + h) * (size_t)l.chunks + (size_t)a.c;
  return l.part + chunk * (size_t)l.shape.d_v;
}

/* a_c of all heads. */
template <int HEADS>
static __device__ void
sum_columns(const kv_gpu_layer &l, const kv_hand &a, const kv_gpu_paged &p,
            const kv_paged_values &x, const float *weight) {
  constexpr int COLUMNS = kv_paged_columns(HEADS);
  int each = x.width / COLUMNS;
  KV_ROLLED
  for (int column = kv_thread(); column < each; column += KV_BLOCK) {
    float sum[COLUMNS * HEADS];
    KV_UNROLL
    for (int u = 0; u < COLUMNS * HEADS; u++) sum[u] = 0;
    kv_paged_values_weigh<HEADS>(p, x, column, weight, sum);
    KV_UNROLL
    for (int u = 0; u < COLUMNS * HEADS; u++)
      if (u / COLUMNS < a.count)
        part_of(l, a, u / COLUMNS)[column + u % COLUMNS * each] = sum[u];
  }
}

/* The same, element by element. */
template <int HEADS>
static __device__ void sum_slowly(const kv_gpu_layer &l, const kv_hand &a,
                                  const float *weight) {
  const kv_gpu_lane *lane = &l.lane[a.lane];
  KV_ROLLED
  for (int x = kv_thread(); x < l.shape.d_v; x += KV_BLOCK) {
    float sum[HEADS];
    KV_UNROLL
    for (int h = 0; h < HEADS; h++) sum[h] = 0;
    KV_ROLLED
    for (int j = 0; j < a.n; j++) {
      float v = kv_gpu_value(l, lane, a.c * CHUNK + j, x);
      KV_UNROLL
      for (int h = 0; h < HEADS; h++)
        sum[h] = kv_fma(weight[h * CHUNK + j], v, sum[h]);
    }
    KV_UNROLL
    for (int h = 0; h < HEADS; h++)
      if (h < a.count) part_of(l, a, h)[x] = sum[h];
  }
}

/* Where the values of the chunk's entries are; whether all are coded. */
static __device__ bool find_values(const kv_gpu_layer &l, const kv_gpu_paged &p,
                                   const kv_hand &a, int32_t *slot) {
  int j = kv_thread(), tier = 0;
  if (j < a.n) {
    kv_cell_ref ref = l.lane[a.lane].v[a.c * CHUNK + j];
    tier = kv_paged_tier_of(p, ref, KV_SIDE_V);
    slot[j] = kv_paged_slot(tier, ref.block);
  }
  return !kv_block_any(tier < 0);
}

template <int HEADS>
static __global__ void paged_chunks(const __grid_constant__ kv_gpu_layer l,
                                    const __grid_constant__ kv_gpu_paged p) {
  KV_SHARED(kv_quad, weight, HEADS * CHUNK / 4);
  KV_SHARED(kv_piece, slots, CHUNK / 4);
  KV_SHARED(const char *, row, CHUNK);
  KV_SHARED(kv_piece, code, CHUNK * KV_PAGED_PIECES);
  KV_SHARED(kv_quad, range, KV_PAGED_RANGES * 2 * CHUNK / 4);
  const kv_hand a = kv_hand_take<HEADS>(l, l.lane[blockIdx.y].n);
  int32_t *slot = (int32_t *)slots;
  int j = kv_thread();
  if (a.n <= 0) return;
  kv_paged_values x;
  bool suits = kv_paged_values_suit(
      p, a.n, {0, 0, 0, 0, slot, code, (float *)range}, &x);
  suits &= find_values(l, p, a, slot);
  if (suits && j < a.n) row[j] = kv_paged_values_row(p, a.lane, x);
  __syncthreads();
  if (suits) kv_paged_values_fetch(p, row, x);
  weights<HEADS>(l, a, (float *)weight);
  kv_async_wait<0>();
  __syncthreads();
  if (suits)
    sum_columns<HEADS>(l, a, p, x, (const float *)weight);
  else
    sum_slowly<HEADS>(l, a, (const float *)weight);
}

/* --- starts --------------------------------------------------------------- */

template <int EACH>
static void start(void *stream, const kv_gpu_layer *l, const kv_gpu_paged *p) {
  int heads = l->shape.n_heads / l->lanes;
  dim3 grid((unsigned)l->chunks, (unsigned)l->lanes,
            (unsigned)((heads + EACH - 1) / EACH));
  KV_LAUNCH(stream, (paged_chunks<EACH>), grid, KV_BLOCK, *l, *p);
}

extern "C" void kv_gpu_start_attend_paged(void *stream, const kv_gpu_layer *l,
                                          const kv_gpu_paged *p) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *,
                                    const kv_gpu_paged *) = {
      start<1>, start<2>, start<3>, start<4>,
      start<5>, start<6>, start<7>, start<8>};
  int heads = l->shape.n_heads / l->lanes, parts = (heads + MOST - 1) / MOST;
  kv_gpu_start_paged_logits(stream, l, p);
  starts[(heads + parts - 1) / parts - 1](stream, l, p);
  kv_gpu_start_join(stream, l);
}
