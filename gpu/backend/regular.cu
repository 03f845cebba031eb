/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over a store of regular indices (gpu/shared/regular.h): only tokens
 * in a lane's mask count; results are, to the bit, those of plain attention
 * over the same tokens. A chunk of arithmetic 3 is 128 of these in order,
 * wherever they are. So a block, which has chunk c for up to 8 query heads,
 * counts the mask's bits up to 128 c, lists the next 128, and reads only these
 * rows. Words without a bit cost one read; tiles of rows without one cost
 * nothing. A rewritten store uses the same kernel with a mask of ones.
 *
 * The grid has as many chunks as the store's capacity; blocks past a lane's
 * last return. Logits stay in shared memory. Then join.cu, as for any lane.
 */
#include "gpu/block/block.cuh"
#include "gpu/lane/entry.cuh"
#include "gpu/lane/logits.cuh"
#include "gpu/lane/values.cuh"
#include "gpu/lane/weigh.cuh"
#include "gpu/shared/device.h"

enum { CHUNK = KV_BLOCK }; /* arithmetic 3: 128 */
constexpr int MOST = 8;    /* heads that share a pass over K and V */
constexpr int STAGES = KV_VALUE_STAGES * KV_VALUE_PIECES;
static_assert(STAGES >= KV_KEY_STAGES * KV_BLOCK * KV_KEY_PIECES,
              "stages of keys fit where those of values do");

/* Memory of a block; p: logits, then weights, [heads][CHUNK]. */
typedef struct room {
  int32_t *place; /* [CHUNK] of the chunk's entries */
  const char **key;
  kv_gpu_row *row;
  kv_piece *stage;
  kv_quad *query;
  float *p;
} room;

/* --- the chunk's entries -------------------------------------------------- */

/* Lists the places of entries 128 c and on; returns how many the lane has. */
static __device__ int find(const uint32_t *mask, int words, int c,
                           int32_t *place) {
  int each = (words + KV_BLOCK - 1) / KV_BLOCK, first = kv_thread() * each;
  int end = first + each < words ? first + each : words;
  uint32_t own = 0, total;
  for (int w = first; w < end; w++) own += (uint32_t)__popc(mask[w]);
  int rank = (int)kv_block_before(own, &total) - c * CHUNK;
  for (int w = first; w < end && rank < CHUNK; w++) {
    uint32_t bits = mask[w];
    int here = __popc(bits);
    if (rank + here <= 0) bits = 0, rank += here;
    for (; bits; bits &= bits - 1, rank++)
      if (rank >= 0 && rank < CHUNK)
        place[rank] = 32 * w + __ffs((int)bits) - 1;
  }
  __syncthreads();
  return (int)total;
}

static __device__ void find_rows(const kv_gpu_layer &l, const kv_gpu_regular &r,
                                 const kv_gpu_regular_half &h, const kv_hand &a,
                                 const room &x) {
  int j = kv_thread();
  size_t each = l.shape.dtype == KV_F32 ? 4 : 2;
  size_t base = (size_t)a.lane * (size_t)r.room;
  x.key[j] = nullptr;
  if (j < a.n) {
    size_t at = base + (size_t)x.place[j];
    x.key[j] = h.k + at * (size_t)l.shape.d * each;
    x.row[j] =
        kv_gpu_plain_row(h.v + at * (size_t)l.shape.d_v * each, l.shape.dtype);
  }
  __syncthreads();
}

/* Where the lanes of a layer lie here, what is not finite is told by its entry:
 * places become entries, a thread its own. */
static __device__ void name_entries(const kv_gpu_layer &l,
                                    const kv_gpu_regular &r, const kv_hand &a,
                                    const room &x) {
  int j = kv_thread(), at = a.c * CHUNK + j;
  if (!l.lane || j >= a.n) return;
  x.place[j] =
      r.entries ? l.place[(size_t)a.first * (size_t)l.stride + (size_t)at] : at;
}

/* --- logits --------------------------------------------------------------- */

template <int HEADS>
static __device__ void logits(const kv_gpu_layer &l, const kv_hand &a,
                              const room &x) {
  int d = l.shape.d, own = kv_key_query();
  const float *q =
      l.q + (size_t)(a.first + (own < a.count ? own : a.count - 1)) * (size_t)d;
  kv_key_room keys = {x.stage, x.query};
  float acc[HEADS];
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) acc[h] = 0;
  if (l.shape.dtype == KV_F16)
    kv_key_chains<HEADS, 1, KV_F16>(d, x.key, q, keys, acc);
  else if (l.shape.dtype == KV_BF16)
    kv_key_chains<HEADS, 1, KV_BF16>(d, x.key, q, keys, acc);
  else
    kv_key_chains<HEADS, 1, KV_F32>(d, x.key, q, keys, acc);
  KV_UNROLL
  for (int h = 0; h < HEADS; h++)
    x.p[h * CHUNK + kv_thread()] =
        kv_thread() < a.n ? kv_logit(acc[h], l.shape.scale, l.shape.softcap)
                          : 0;
  kv_async_wait<0>();
  __syncthreads();
}

template <int HEADS>
static __global__ void
regular_chunks(const __grid_constant__ kv_gpu_layer l,
               const __grid_constant__ kv_gpu_regular r) {
  KV_SHARED(int32_t, place, CHUNK);
  KV_SHARED(const char *, key, CHUNK);
  KV_SHARED(kv_gpu_row, row, CHUNK);
  KV_SHARED(kv_piece, stage, STAGES);
  KV_SHARED(kv_quad, query, KV_KEY_STAGES * HEADS * KV_KEY_QUADS);
  KV_SHARED(kv_quad, weight, HEADS * CHUNK / 4);
  const kv_gpu_regular_half &half = r.half[*r.which];
  const uint32_t *mask = half.mask + (size_t)blockIdx.y * (size_t)r.stride;
  int all = find(mask, r.words, (int)blockIdx.x, place);
  kv_hand a = kv_hand_take<HEADS>(l, all);
  room x = {place, key, row, stage, query, (float *)weight};
  if (a.c == 0 && kv_thread() < a.count) l.entries[a.first + kv_thread()] = all;
  if (a.n <= 0) return;
  find_rows(l, r, half, a, x);
  name_entries(l, r, a, x);
  logits<HEADS>(l, a, x);
  kv_hand_weigh<HEADS>(l, a, x.p, place);
  kv_values_sum<HEADS, true>(l, a.first, a.count, a.c, a.n, row, stage, x.p,
                             [] {});
  kv_async_wait<0>();
}

/* --- starts --------------------------------------------------------------- */

template <int EACH>
static void start(void *stream, const kv_gpu_layer *l,
                  const kv_gpu_regular *r) {
  int heads = l->shape.n_heads / l->lanes;
  dim3 grid((unsigned)((r->room + CHUNK - 1) / CHUNK), (unsigned)l->lanes,
            (unsigned)((heads + EACH - 1) / EACH));
  KV_LAUNCH(stream, (regular_chunks<EACH>), grid, KV_BLOCK, *l, *r);
}

extern "C" void kv_gpu_start_regular_attend(void *stream, const kv_gpu_layer *l,
                                            const kv_gpu_regular *r) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *,
                                    const kv_gpu_regular *) = {
      start<1>, start<2>, start<3>, start<4>,
      start<5>, start<6>, start<7>, start<8>};
  int heads = l->shape.n_heads / l->lanes, parts = (heads + MOST - 1) / MOST;
  starts[(heads + parts - 1) / parts - 1](stream, l, r);
  kv_gpu_start_join(stream, l);
}

/* --- lanes in such a store ------------------------------------------------ */

/* Lanes whose rows lie in a store of regular indices (gpu/shared/regular.h,
 * gpu/host/indexed.h): masks that say what the lanes' entries say, or those of
 * all lanes together, and entries that name their places after the lanes were
 * rewritten. K and V of an entry have one place. A block a lane, but a thread a
 * word where masks are joined; each entry is looked at once. */

static __device__ bool is_read(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                               int i) {
  return !lane->tier || !(l.needs.unread >> lane->tier[i] & 1);
}

/* Where a mask serves all lanes, no bit of it is set before theirs are. */
static __global__ void wipe(const __grid_constant__ kv_gpu_regular r) {
  int w = (int)blockIdx.x * KV_BLOCK + kv_thread();
  if (w < r.words) r.half[*r.which].mask[w] = 0;
}

/* Bits of the lane's entries are set, .. */
static __global__ void mark(const __grid_constant__ kv_gpu_layer l,
                            const __grid_constant__ kv_gpu_regular r,
                            bool all) {
  const kv_gpu_lane *lane = &l.lane[blockIdx.x];
  const kv_gpu_regular_half &h = r.half[*r.which];
  uint32_t *mask = h.mask + (size_t)blockIdx.x * (size_t)r.stride;
  for (int w = kv_thread(); r.stride && w < r.words; w += KV_BLOCK) mask[w] = 0;
  __syncthreads();
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) {
    int at = lane->k[i].block;
    if (all || is_read(l, lane, i)) atomicOr(&mask[at / 32], 1u << at % 32);
  }
}

/* .. those of all lanes in each of them, .. */
static __global__ void join(const __grid_constant__ kv_gpu_layer l,
                            const __grid_constant__ kv_gpu_regular r) {
  int w = (int)blockIdx.x * KV_BLOCK + kv_thread();
  if (w >= r.words) return;
  uint32_t *mask = r.half[*r.which].mask + w, any = 0;
  for (int i = 0; i < l.lanes; i++) any |= mask[(size_t)i * (size_t)r.words];
  for (int i = 0; i < l.lanes; i++) mask[(size_t)i * (size_t)r.words] = any;
}

/* .. and where the j-th of them was gathered to place j, entries say so; the
 * mask that named what was gathered is the half's that was left. */
static __device__ void list_before(const uint32_t *mask, int words,
                                   int32_t *before) {
  int each = (words + KV_BLOCK - 1) / KV_BLOCK, first = kv_thread() * each;
  int end = first + each < words ? first + each : words;
  uint32_t own = 0, total;
  for (int w = first; w < end; w++) own += (uint32_t)__popc(mask[w]);
  int sum = (int)kv_block_before(own, &total);
  for (int w = first; w < end; w++) {
    before[w] = sum;
    sum += __popc(mask[w]);
  }
  __syncthreads();
}

/* The pool's pages are pieces of the half in use. */
static __device__ void turn_pages(const kv_gpu_regular &r, kv_gpu_raw *pool,
                                  char *side, int lane, int taken) {
  char *rows = side + (size_t)lane * (size_t)r.room * pool->size;
  for (int p = kv_thread(); p < r.room / KV_GPU_PAGE; p += KV_BLOCK)
    pool->page[p] = rows + (size_t)p * KV_GPU_PAGE * pool->size;
  if (kv_thread() == 0) pool->used = taken, pool->n_free = 0;
}

static __global__ void follow(const __grid_constant__ kv_gpu_layer l,
                              const __grid_constant__ kv_gpu_regular r) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  int which = *r.which, number = (int)blockIdx.x;
  const kv_gpu_regular_half &h = r.half[which], &left = r.half[1 - which];
  const uint32_t *mask = left.mask + (size_t)number * (size_t)r.words;
  int32_t *before = lane->list;
  list_before(mask, r.words, before);
  for (int i = kv_thread(); i < lane->n; i += KV_BLOCK) {
    int at = lane->k[i].block;
    uint32_t below = mask[at / 32] & ((1u << at % 32) - 1);
    lane->k[i].block = lane->v[i].block = before[at / 32] + __popc(below);
  }
  turn_pages(r, &lane->k_raw, h.k, number, h.taken[number]);
  turn_pages(r, &lane->v_raw, h.v, number, h.taken[number]);
}

extern "C" void kv_gpu_start_regular_lanes(void *stream, const kv_gpu_layer *l,
                                           const kv_gpu_regular *r, int act) {
  unsigned lanes = (unsigned)l->lanes;
  unsigned words = (unsigned)(r->words + KV_BLOCK - 1) / KV_BLOCK;
  if (act == KV_GPU_REGULAR_FOLLOW)
    KV_LAUNCH(stream, follow, lanes, KV_BLOCK, *l, *r);
  else if (act == KV_GPU_REGULAR_JOIN)
    KV_LAUNCH(stream, join, words, KV_BLOCK, *l, *r);
  else {
    if (!r->stride) KV_LAUNCH(stream, wipe, words, KV_BLOCK, *r);
    KV_LAUNCH(stream, mark, lanes, KV_BLOCK, *l, *r,
              act == KV_GPU_REGULAR_HELD);
  }
}
