/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes a store of regular indices (gpu/shared/regular.h): appends tokens to
 * every lane, or removes masked tokens from all of them. Lanes may be those of
 * one layer or of all. Each change is one launch, followed by another that
 * updates the lanes' counts or swaps the halves. A rewrite keeps the order: the
 * j-th set bit becomes place j.
 *
 * A block moves PART places of a lane. It finds their destination by counting
 * the mask before them, so blocks need nothing from each other.
 */
#include "gpu/block/async.h"
#include "gpu/block/block.cuh"
#include "gpu/shared/device.h"

constexpr int PART = 512; /* places of a block */
constexpr int PART_WORDS = PART / 32;
static_assert(PART_WORDS <= KV_BLOCK, "a thread a word");

static __device__ size_t element(const kv_gpu_layer &l) {
  return l.shape.dtype == KV_F32 ? 4 : 2;
}

/* Row `at` of lane i. */
static __device__ char *row_of(const kv_gpu_regular &r, char *side, size_t size,
                               int i, int at) {
  return side + ((size_t)i * (size_t)r.room + (size_t)at) * size;
}

/* --- entering ------------------------------------------------------------- */

static __device__ void copy_row(char *to, const char *from, size_t size) {
  for (size_t x = 2 * (size_t)kv_thread(); x < size; x += 2 * KV_BLOCK)
    *(uint16_t *)(to + x) = *(const uint16_t *)(from + x);
}

/* Rows of the clock's tokens go behind the last place of lane blockIdx.x; its
 * blocks take turns. */
static __global__ void enter(const __grid_constant__ kv_gpu_layer l,
                             const __grid_constant__ kv_gpu_regular r) {
  const kv_gpu_regular_half &h = r.half[*r.which];
  int lane = (int)blockIdx.x, base = h.taken[lane];
  int head = lane / (l.lanes / l.shape.n_kv_heads);
  size_t each = element(l), d = (size_t)l.shape.d, d_v = (size_t)l.shape.d_v;
  for (int j = (int)blockIdx.y; j < l.clock->count; j += (int)gridDim.y) {
    size_t from =
        (size_t)head * (size_t)l.shape.n_tokens + (size_t)(l.clock->first + j);
    int at = base + j;
    if (at >= r.room) return; /* the host has seen to it that there is room */
    copy_row(row_of(r, h.k, d * each, lane, at), l.k + from * d * each,
             d * each);
    copy_row(row_of(r, h.v, d_v * each, lane, at), l.v + from * d_v * each,
             d_v * each);
  }
}

/* Bits of word w that are places first..end-1. */
static __device__ uint32_t span(int w, int first, int end) {
  uint32_t below = 32 * w + 32 <= end ? ~0u : (1u << end % 32) - 1;
  return 32 * w >= first ? below : below & ~0u << first % 32;
}

/* .. and these places count, lane blockIdx.x. */
static __global__ void take_places(const __grid_constant__ kv_gpu_layer l,
                                   const __grid_constant__ kv_gpu_regular r) {
  const kv_gpu_regular_half &h = r.half[*r.which];
  int lane = (int)blockIdx.x, first = h.taken[lane];
  int end = first + l.clock->count;
  if (end > r.room) end = r.room;
  __syncthreads();
  bool marks = r.stride || lane == 0; /* one mask has one writer */
  for (int w = first / 32 + kv_thread(); marks && 32 * w < end; w += KV_BLOCK)
    h.mask[lane * r.stride + w] |= span(w, first, end);
  if (kv_thread() == 0) h.taken[lane] = end;
}

/* --- rewriting ------------------------------------------------------------ */

/* Bits set in words first..end-1. */
static __device__ int count(const uint32_t *mask, int first, int end) {
  int n = 0;
  for (int w = first + kv_thread(); w < end; w += KV_BLOCK)
    n += __popc(mask[w]);
  return kv_block_sum(n);
}

/* Lists the part's places whose bit is set; returns how many. */
static __device__ int list(const uint32_t *mask, int words, int32_t *place) {
  int w = kv_thread();
  uint32_t own = w < words ? mask[w] : 0, total;
  uint32_t at = kv_block_before((uint32_t)__popc(own), &total);
  for (; own; own &= own - 1) place[at++] = 32 * w + __ffs((int)own) - 1;
  __syncthreads();
  return (int)total;
}

/* Rows place[0..n) of one half, one behind another; T: what is copied at once.
 */
template <class T>
static __device__ void gather_as(char *to, const char *from, size_t size,
                                 const int32_t *place, int n) {
  int each = (int)(size / sizeof(T));
  for (int at = kv_thread(); at < n * each; at += KV_BLOCK) {
    int j = at / each, x = at % each;
    const T *row = (const T *)(from + (size_t)place[j] * size);
    ((T *)to)[at] = row[x];
  }
}

static __device__ void gather(char *to, const char *from, size_t size,
                              const int32_t *place, int n) {
  if (size % sizeof(kv_piece) == 0)
    gather_as<kv_piece>(to, from, size, place, n);
  else
    gather_as<uint16_t>(to, from, size, place, n);
}

/* Part blockIdx.x of lane blockIdx.y. */
static __global__ void rewrite(const __grid_constant__ kv_gpu_layer l,
                               const __grid_constant__ kv_gpu_regular r) {
  KV_SHARED(int32_t, place, PART);
  const kv_gpu_regular_half &a = r.half[*r.which], &b = r.half[1 - *r.which];
  int lane = (int)blockIdx.y, first = (int)blockIdx.x * PART_WORDS;
  int left = r.words - first, words = left < PART_WORDS ? left : PART_WORDS;
  const uint32_t *mask = a.mask + (size_t)lane * (size_t)r.words;
  int before = count(mask, 0, first);
  int all = before + count(mask, first, r.words);
  int n = list(mask + first, words, place);
  size_t k = (size_t)l.shape.d * element(l),
         v = (size_t)l.shape.d_v * element(l);
  int base = 32 * first, w = first + kv_thread();
  gather(row_of(r, b.k, k, lane, before), row_of(r, a.k, k, lane, base), k,
         place, n);
  gather(row_of(r, b.v, v, lane, before), row_of(r, a.v, v, lane, base), v,
         place, n);
  if (kv_thread() < words) {
    int bits = all - 32 * w;
    b.mask[lane * r.words + w] = bits >= 32 ? ~0u
                                 : bits > 0 ? (1u << bits) - 1
                                            : 0;
  }
  if (first == 0 && kv_thread() == 0) b.taken[lane] = all;
}

static __global__ void change(int32_t *which) {
  if (threadIdx.x == 0) *which = 1 - *which;
}

/* --- starts --------------------------------------------------------------- */

static void start_enter(void *stream, const kv_gpu_layer *l,
                        const kv_gpu_regular *r) {
  constexpr unsigned MOST = 64; /* blocks of a lane; those of one token rest */
  unsigned rooms = (unsigned)(r->room + 15) / 16;
  dim3 grid((unsigned)l->lanes, rooms < MOST ? rooms : MOST);
  KV_LAUNCH(stream, enter, grid, KV_BLOCK, *l, *r);
  KV_LAUNCH(stream, take_places, (unsigned)l->lanes, KV_BLOCK, *l, *r);
}

static void start_rewrite(void *stream, const kv_gpu_layer *l,
                          const kv_gpu_regular *r) {
  dim3 grid((unsigned)((r->words + PART_WORDS - 1) / PART_WORDS),
            (unsigned)l->lanes);
  KV_LAUNCH(stream, rewrite, grid, KV_BLOCK, *l, *r);
  KV_LAUNCH(stream, change, 1u, KV_BLOCK, r->which);
}

extern "C" void kv_gpu_start_regular(void *stream, const kv_gpu_layer *l,
                                     const kv_gpu_regular *r, int act) {
  if (act == KV_GPU_REGULAR_ENTER)
    start_enter(stream, l, r);
  else if (act == KV_GPU_REGULAR_ATTEND)
    kv_gpu_start_regular_attend(stream, l, r);
  else if (act == KV_GPU_REGULAR_REWRITE)
    start_rewrite(stream, l, r);
  else
    kv_gpu_start_regular_lanes(stream, l, r, act);
}
