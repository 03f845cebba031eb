/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over the views of a decode step: arithmetic 3. A block computes one
 * chunk of 128 entries, in the order of the view, for the heads that see the
 * same entries in it: V is read once for up to 8 of them; more are divided
 * evenly (13 heads into 7 and 6). If a method has views of its own, a block
 * checks whether the heads agree about its chunk, and reads V once for each if
 * not. Then join.cu joins the chunks in order.
 *
 * PLAIN: every entry is an unchanged row of its lane's pool. Otherwise a chunk
 * whose rows are all coded alike is decoded on the way (values_coded.cuh); of
 * any other, coded rows are decoded into their stage and the rest copied.
 */
#include "gpu/block/block.cuh"
#include "gpu/lane/values_coded.cuh"
#include "gpu/shared/device.h"
#include "ref/ground/arith.h"

enum { CHUNK = KV_BLOCK }; /* arithmetic 3: 128 */
constexpr int MOST = 8;    /* heads that share a pass over V */

/* --- weights ------------------------------------------------------------ */

/* Records a non-finite logit as the lane's first, if it is. */
static __device__ void check_logit(const kv_gpu_layer &l, int lane, int h,
                                   int entry, float s) {
  if (kv_finite(s)) return;
  unsigned long long at = (unsigned long long)h << 32 | (unsigned)entry;
  atomicMin((unsigned long long *)&l.bad[lane], at);
}

/* Largest key and sum of masses over all threads, for each head; all threads
 * get the results. Ends without a barrier. */
template <int HEADS> static __device__ void all_best(uint32_t *key) {
  KV_SHARED(uint32_t, part, HEADS * KV_WARPS);
  int lane = kv_thread() % KV_WARP, warp = kv_thread() / KV_WARP;
  KV_UNROLL
  for (int h = 0; h < HEADS; h++)
    for (int d = KV_WARP / 2; d; d >>= 1) {
      uint32_t other = __shfl_xor_sync(0xffffffffu, key[h], d);
      key[h] = other > key[h] ? other : key[h];
    }
  KV_UNROLL
  for (int h = 0; h < HEADS; h++)
    if (lane == 0) part[h * KV_WARPS + warp] = key[h];
  __syncthreads();
  KV_UNROLL
  for (int h = 0; h < HEADS; h++)
    for (int w = 0; w < KV_WARPS; w++) {
      uint32_t other = part[h * KV_WARPS + w];
      key[h] = other > key[h] ? other : key[h];
    }
}

template <int HEADS> static __device__ void all_mass(int64_t *mass) {
  KV_SHARED(int64_t, part, HEADS * KV_WARPS);
  int lane = kv_thread() % KV_WARP, warp = kv_thread() / KV_WARP;
  KV_UNROLL
  for (int h = 0; h < HEADS; h++)
    for (int d = KV_WARP / 2; d; d >>= 1)
      mass[h] += __shfl_xor_sync(0xffffffffu, mass[h], d);
  KV_UNROLL
  for (int h = 0; h < HEADS; h++)
    if (lane == 0) part[h * KV_WARPS + warp] = mass[h];
  __syncthreads();
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) {
    mass[h] = 0;
    for (int w = 0; w < KV_WARPS; w++) mass[h] += part[h * KV_WARPS + w];
  }
}

/* A chunk to compute for heads first .. first + count - 1, which see the same n
 * entries in it. */
typedef struct hand {
  const kv_gpu_lane *lane;
  int which; /* the lane's number */
  int first, count, c, n;
} hand;

/* Computes m_c, p_j and l_c of every head; p [HEADS][CHUNK] may be read after a
 * barrier. Heads past the last repeat the last one. */
template <int HEADS>
static __device__ void weights(const kv_gpu_layer &l, const hand &a, int entry,
                               float *p) {
  int j = kv_thread();
  float s[HEADS];
  uint32_t key[HEADS];
  int64_t mass[HEADS];
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) {
    int head = a.first + (h < a.count ? h : a.count - 1);
    s[h] = 0;
    if (j < a.n) s[h] = l.s[(size_t)head * (size_t)l.stride + (size_t)entry];
    key[h] = j < a.n ? kv_key(s[h]) : 0;
    if (j < a.n)
      check_logit(l, a.which, head - a.lane->first_head, entry, s[h]);
  }
  all_best<HEADS>(key);
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) {
    float e = j < a.n ? kv_expm(kv_sub(s[h], kv_of_key(key[h]))) : 0;
    mass[h] = j < a.n ? kv_fix(e) : 0;
    p[h * CHUNK + j] = e;
  }
  all_mass<HEADS>(mass);
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) {
    if (h >= a.count || j != h) continue;
    size_t at = (size_t)(a.first + h) * (size_t)l.chunks + (size_t)a.c;
    l.top[at] = kv_of_key(key[h]);
    l.mass[at] = kv_unfix(mass[h]);
  }
}

/* --- chunks ------------------------------------------------------------- */

/* Puts the thread's sums of columns `first` on where join reads them. */
template <int HEADS>
static __device__ void keep_sums(const kv_gpu_layer &l, const hand &a,
                                 int first, int width, const float *sum) {
  int column = kv_value_column(), base = kv_value_first(HEADS);
  KV_UNROLL
  for (int h = 0; h < kv_value_heads(HEADS); h++) {
    if (base + h >= a.count || !kv_value_mine(HEADS, h)) continue;
    size_t chunk =
        (size_t)(a.first + base + h) * (size_t)l.chunks + (size_t)a.c;
    float *to = l.part + chunk * (size_t)l.shape.d_v + first + column;
    if (column < width) to[0] = sum[2 * h];
    if (column + 1 < width) to[1] = sum[2 * h + 1];
  }
}

/* Computes a_c of every head; the first stages are loaded while the weights are
 * computed. */
template <int HEADS, bool PLAIN>
static __device__ void sums(const kv_gpu_layer &l, const hand &a, int entry,
                            const kv_gpu_row *row, kv_piece *stage, float *p) {
  constexpr int OWN = 2 * kv_value_heads(HEADS);
  int size = PLAIN && l.shape.dtype != KV_F32 ? 2 : 4;
  for (int first = 0; first < l.shape.d_v; first += KV_BLOCK) {
    kv_columns x = kv_columns_from(l, first, size, PLAIN, row, stage);
    float sum[OWN];
    KV_UNROLL
    for (int u = 0; u < OWN; u++) sum[u] = 0;
    for (int t = 0; t < KV_VALUE_STAGES; t++)
      kv_values_fetch<PLAIN>(l, x, a.n, t);
    if (first == 0) weights<HEADS>(l, a, entry, p);
    for (int t = 0; t * x.rows < a.n; t++) {
      kv_async_wait<KV_VALUE_STAGES - 1>();
      __syncthreads();
      kv_values_weigh<HEADS, PLAIN>(l, x, a.n, t, p, sum);
      __syncthreads();
      kv_values_fetch<PLAIN>(l, x, a.n, t + KV_VALUE_STAGES);
    }
    keep_sums<HEADS>(l, a, first, x.width, sum);
  }
}

/* The same, if the rows are all coded in FORMAT and suit; whether they did. */
template <int HEADS, int FORMAT>
static __device__ bool coded_sums(const kv_gpu_layer &l, const hand &a,
                                  int entry, const kv_gpu_row *row,
                                  kv_piece *stage, float *p) {
  constexpr int ROOM = KV_VALUE_STAGES * KV_VALUE_PIECES * 16;
  kv_coded_values x;
  if (!kv_coded_values_suit<FORMAT>(a.n, row, (char *)stage, ROOM, &x))
    return false;
  float sum[HEADS];
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) sum[h] = 0;
  kv_coded_values_fetch(row, x);
  weights<HEADS>(l, a, entry, p);
  kv_async_wait<0>();
  __syncthreads();
  kv_coded_values_widen(x);
  __syncthreads();
  if (x.how.fp16_ops)
    kv_coded_values_weigh<HEADS, true>(x, p, sum);
  else
    kv_coded_values_weigh<HEADS, false>(x, p, sum);
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) {
    size_t chunk = (size_t)(a.first + h) * (size_t)l.chunks + (size_t)a.c;
    if (h < a.count && kv_thread() < x.width)
      l.part[chunk * (size_t)x.width + (size_t)kv_thread()] = sum[h];
  }
  return true;
}

/* Entries of chunk c of a head. */
static __device__ int size_of(const kv_gpu_layer &l, int head, int c) {
  int n = l.entries[head] - c * CHUNK;
  return n < 0 ? 0 : n < CHUNK ? n : CHUNK;
}

/* Where heads have views of their own; otherwise a place is the entry's. */
static __device__ int place_of(const kv_gpu_layer &l, int head, int c, int j) {
  return l.place[(size_t)head * (size_t)l.stride + (size_t)(c * CHUNK + j)];
}

/* True if heads first .. first + count - 1 see the same entries in chunk c. */
static __device__ bool is_shared(const kv_gpu_layer &l, int first, int count,
                                 int c) {
  int n = size_of(l, first, c), j = kv_thread(), other = 0;
  for (int h = first + 1; h < first + count; h++) {
    if (size_of(l, h, c) != n) return false;
    if (j < n) other += place_of(l, h, c, j) != place_of(l, first, c, j);
  }
  return kv_block_sum(other) == 0;
}

/* The heads that this block computes; count 0: another block does. `apart`:
 * heads have views of their own, and a block each; if up to HEADS of them see
 * the same, the first one's block computes all. */
template <int HEADS>
static __device__ hand take_heads(const kv_gpu_layer &l, bool apart) {
  int heads = l.shape.n_heads / l.lanes, c = (int)blockIdx.x;
  int parts = (heads + HEADS - 1) / HEADS, y = (int)blockIdx.y;
  int which = apart ? y / heads : y / parts;
  int h = apart ? y % heads : y % parts * HEADS, first = h / HEADS * HEADS;
  int count = heads - first < HEADS ? heads - first : HEADS;
  int base = which * heads;
  if (apart && HEADS > 1) {
    if (!is_shared(l, base + first, count, c))
      count = 1;
    else if (h != first)
      count = 0;
  }
  hand a = {&l.lane[which], which, base + h, count, c, size_of(l, base + h, c)};
  return a;
}

template <int HEADS, bool PLAIN>
static __global__ void chunks(const __grid_constant__ kv_gpu_layer l,
                              bool apart) {
  KV_SHARED(kv_quad, weight, HEADS * CHUNK / 4);
  KV_SHARED(kv_gpu_row, row, CHUNK);
  KV_SHARED(kv_piece, stage, KV_VALUE_STAGES * KV_VALUE_PIECES);
  hand a = take_heads<HEADS>(l, apart);
  if (a.n == 0 || a.count == 0) return;
  int j = kv_thread(), entry = a.c * CHUNK + j;
  if (j < a.n) {
    if (apart) entry = place_of(l, a.first, a.c, j);
    row[j] = PLAIN ? kv_gpu_raw_row(l, a.lane->v_raw, a.lane->v[entry])
                   : kv_gpu_attended_row(l, a.lane, entry);
  }
  __syncthreads();
  float *p = (float *)weight;
  if (!PLAIN && HEADS > 1 && a.count == 1) {
    if (coded_sums<1, KV_GPU_token>(l, a, entry, row, stage, p)) return;
  } else if (!PLAIN) {
    if (coded_sums<HEADS, KV_GPU_token>(l, a, entry, row, stage, p)) return;
  }
  if (HEADS > 1 && a.count == 1)
    sums<1, PLAIN>(l, a, entry, row, stage, p);
  else
    sums<HEADS, PLAIN>(l, a, entry, row, stage, p);
}

/* --- starts ------------------------------------------------------------- */

template <int HEADS>
static void start_chunks(void *stream, const kv_gpu_layer *l, bool apart) {
  int heads = l->shape.n_heads / l->lanes;
  int blocks =
      apart ? l->shape.n_heads : l->lanes * ((heads + HEADS - 1) / HEADS);
  dim3 grid((unsigned)l->chunks, (unsigned)blocks);
  if (!l->needs.merges && !l->needs.codings)
    KV_LAUNCH(stream, (chunks<HEADS, true>), grid, KV_BLOCK, *l, apart);
  else
    KV_LAUNCH(stream, (chunks<HEADS, false>), grid, KV_BLOCK, *l, apart);
}

extern "C" void kv_gpu_start_attend(void *stream, const kv_gpu_layer *l,
                                    int masked) {
  static void (*const starts[MOST])(void *, const kv_gpu_layer *, bool) = {
      start_chunks<1>, start_chunks<2>, start_chunks<3>, start_chunks<4>,
      start_chunks<5>, start_chunks<6>, start_chunks<7>, start_chunks<8>};
  int heads = l->shape.n_heads / l->lanes;
  int parts = (heads + MOST - 1) / MOST, each = (heads + parts - 1) / parts;
  starts[each - 1](stream, l, masked != 0);
  kv_gpu_start_join(stream, l);
}
