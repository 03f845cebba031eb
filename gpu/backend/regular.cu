/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over a store of regular indices (gpu/shared/regular.h): what counts
 * of a lane is what its mask says, whatever lies between, to the bits of plain
 * attention over the same tokens. A chunk of arithmetic 3 is 128 of these in
 * their order, wherever they lie: so a block, which has chunk c for up to 8
 * query heads, counts the mask's bits up to 128 c, lists the next 128, and
 * reads these rows alone. Words without a bit cost a look at them, tiles of
 * rows without one nothing. A store that was rewritten is the same kernel over
 * a mask of ones.
 *
 * The grid has the chunks that the store has room for; blocks past a lane's
 * last return. Logits stay in shared memory. Then join.cu, as for any lane.
 */
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
