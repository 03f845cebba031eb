/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over the views of a decode step: arithmetic 3. A block computes one
 * chunk of 128 entries, in the order of the view, for the heads that see the
 * same entries in it: V is read once for up to 8 of them; more are divided
 * evenly (13 heads into 7 and 6). If a method has views of its own, a block
 * checks whether the heads agree about its chunk, and reads V once for each if
 * not. A second kernel joins the chunks in order.
 *
 * PLAIN: every entry is an unchanged row of its lane's pool. Otherwise coded
 * rows are decoded into their stage and the others copied.
 */
#include "gpu/block/block.cuh"
#include "gpu/lane/values.cuh"
#include "gpu/shared/device.h"
#include "ref/ground/arith.h"

enum { CHUNK = KV_BLOCK }; /* arithmetic 3: 128 */
constexpr int MOST = 8;    /* heads that share a pass over V */

/* --- weights ------------------------------------------------------------ */

static __device__ float of_key(uint32_t key) {
  return kv_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

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
    float e = j < a.n ? kv_expm(kv_sub(s[h], of_key(key[h]))) : 0;
    mass[h] = j < a.n ? kv_fix(e) : 0;
    p[h * CHUNK + j] = e;
  }
  all_mass<HEADS>(mass);
  KV_UNROLL
  for (int h = 0; h < HEADS; h++) {
    if (h >= a.count || j != h) continue;
    size_t at = (size_t)(a.first + h) * (size_t)l.chunks + (size_t)a.c;
    l.top[at] = of_key(key[h]);
    l.mass[at] = kv_unfix(mass[h]);
  }
}

/* --- chunks ------------------------------------------------------------- */

/* Computes a_c of every head; the first stages are loaded while the weights are
 * computed. */
template <int HEADS, bool PLAIN>
static __device__ void sums(const kv_gpu_layer &l, const hand &a, int entry,
                            const kv_gpu_row *row, kv_piece *stage, float *p) {
  int size = PLAIN && l.shape.dtype != KV_F32 ? 2 : 4;
  for (int first = 0; first < l.shape.d_v; first += KV_BLOCK) {
    kv_columns x = kv_columns_from(l, first, size, row, stage);
    float sum[HEADS];
    for (int h = 0; h < HEADS; h++) sum[h] = 0;
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
    KV_UNROLL
    for (int h = 0; h < HEADS; h++)
      if (h < a.count && kv_thread() < x.width)
        l.part[((size_t)(a.first + h) * (size_t)l.chunks + (size_t)a.c) *
                   (size_t)l.shape.d_v +
               (size_t)(first + kv_thread())] = sum[h];
  }
}

/* Entries of chunk c of a head. */
static __device__ int size_of(const kv_gpu_layer &l, int head, int c) {
  int n = l.entries[head] - c * CHUNK;
  return n < 0 ? 0 : n < CHUNK ? n : CHUNK;
}

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
  int j = kv_thread(), entry = 0;
  if (j < a.n) {
    entry = place_of(l, a.first, a.c, j);
    row[j] = PLAIN ? kv_gpu_raw_row(l, a.lane->v_raw, a.lane->v[entry])
                   : kv_gpu_attended_row(l, a.lane, entry);
  }
  __syncthreads();
  float *p = (float *)weight;
  if (HEADS > 1 && a.count == 1)
    sums<1, PLAIN>(l, a, entry, row, stage, p);
  else
    sums<HEADS, PLAIN>(l, a, entry, row, stage, p);
}

/* --- the whole ---------------------------------------------------------- */

/* Joins the chunks: e^(m_c - M) for 128 chunks at a time, then the chains of L
 * and O. */
static __global__ void join(const __grid_constant__ kv_gpu_layer l) {
  KV_SHARED(float, share, KV_BLOCK);
  KV_SHARED(float, mass, KV_BLOCK);
  size_t head = blockIdx.x, d_v = (size_t)l.shape.d_v;
  const float *top = l.top + head * (size_t)l.chunks;
  const float *part = l.part + head * (size_t)l.chunks * d_v;
  float *out = l.out + head * (d_v + 1);
  int n = (l.entries[head] + CHUNK - 1) / CHUNK, j = kv_thread();
  uint64_t best = 0;
  for (int c = j; c < n; c += KV_BLOCK) {
    uint64_t key = kv_key(top[c]);
    best = key > best ? key : best;
  }
  const float *more = l.more ? l.more + 2 * head : nullptr;
  bool one_more = more && more[1] > 0;
  if (one_more && kv_key(more[0]) > best) best = kv_key(more[0]);
  float m = of_key((uint32_t)kv_block_max(best));
  for (int first = 0; first < l.shape.d_v; first += KV_BLOCK) {
    float all = 0, o = 0;
    int x = first + j < l.shape.d_v ? first + j : l.shape.d_v - 1;
    for (int base = 0; base < n; base += KV_BLOCK) {
      int some = n - base < KV_BLOCK ? n - base : KV_BLOCK;
      if (j < some) {
        share[j] = kv_expm(kv_sub(top[base + j], m));
        mass[j] = l.mass[head * (size_t)l.chunks + (size_t)(base + j)];
      }
      __syncthreads();
      for (int c = 0; c < some; c++) {
        all = kv_fma(share[c], mass[c], all);
        o = kv_fma(share[c], part[(size_t)(base + c) * d_v + (size_t)x], o);
      }
      __syncthreads();
    }
    if (one_more) {
      float w = kv_expm(kv_sub(more[0], m));
      all = kv_fma(w, more[1], all);
      o = kv_fma(w, l.more_a[head * d_v + (size_t)x], o);
    }
    if (first + j < l.shape.d_v) out[x] = kv_div(o, all);
    if (first + j == 0) out[d_v] = kv_add(m, kv_log(all));
  }
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
  KV_LAUNCH(stream, join, (unsigned)l->shape.n_heads, KV_BLOCK, *l);
}
