/* SPDX-License-Identifier: Apache-2.0
 *
 * Joins the chunks of a view in order: the second half of arithmetic 3. A block
 * has a head, a thread a column. The chunks' results pass through shared
 * memory, so that the chain waits for memory once a stage of 32 chunks and not
 * at every chunk. Cost: O(chunks) links in sequence.
 */
#include "gpu/block/async.h"
#include "gpu/block/block.cuh"
#include "gpu/shared/device.h"

/* Chunks a stage, and those whose shares are computed at once. */
constexpr int STAGES = 2, SOME = 32, SHARES = KV_BLOCK;
constexpr int PIECES = KV_BLOCK / 4; /* of a chunk's columns */

/* What the chunks of a head left, from column `first` on. */
typedef struct parts {
  const float *from; /* of chunk 0 */
  size_t stride;     /* floats to the next chunk */
  int width, n;      /* columns; chunks */
} parts;

static __device__ void fetch(const parts &x, kv_piece *stage, int t) {
  stage += t % STAGES * SOME * PIECES;
  for (int at = kv_thread(); at < SOME * PIECES; at += KV_BLOCK) {
    int c = t * SOME + at / PIECES, p = at % PIECES, left = x.width - 4 * p;
    if (c >= x.n || left <= 0) continue;
    const float *from = x.from + (size_t)c * x.stride + 4 * p;
    kv_async_piece(&stage[at], (const char *)from, 4 * left);
  }
  kv_async_commit();
}

/* The chains of L and of the thread's column of O. */
typedef struct joined {
  float all, o;
} joined;

/* top, mass: m_c and l_c of the chunks; m: M. */
static __device__ joined chain(const parts &x, kv_piece *stage,
                               const float *top, const float *mass, float m) {
  KV_SHARED(float, share, SHARES);
  KV_SHARED(float, part, SHARES);
  int j = kv_thread();
  joined a = {0, 0};
  for (int t = 0; t < STAGES; t++) fetch(x, stage, t);
  for (int t = 0; t * SOME < x.n; t++) {
    int base = t * SOME, some = x.n - base < SOME ? x.n - base : SOME;
    if (base % SHARES == 0 && base + j < x.n) {
      share[j] = kv_expm(kv_sub(top[base + j], m));
      part[j] = mass[base + j];
    }
    kv_async_wait<STAGES - 1>();
    __syncthreads();
    const float *o = (const float *)(stage + t % STAGES * SOME * PIECES) + j;
    for (int c = 0; c < some; c++) {
      float w = share[base % SHARES + c];
      a.all = kv_fma(w, part[base % SHARES + c], a.all);
      a.o = kv_fma(w, o[c * KV_BLOCK], a.o);
    }
    __syncthreads();
    fetch(x, stage, t + STAGES);
  }
  return a;
}

/* M: the largest m_c, that of the method's own chunk and the head's sink
 * included. */
static __device__ float largest(const float *top, int n, const float *more,
                                const float *sink) {
  uint32_t best = more ? kv_key(more[0]) : 0;
  if (sink && kv_key(*sink) > best) best = kv_key(*sink);
  for (int c = kv_thread(); c < n; c += KV_BLOCK) {
    uint32_t key = kv_key(top[c]);
    best = key > best ? key : best;
  }
  return kv_of_key(kv_block_max(best));
}

static __global__ void join(const __grid_constant__ kv_gpu_layer l) {
  KV_SHARED(kv_piece, stage, STAGES * SOME * PIECES);
  size_t head = blockIdx.x, d_v = (size_t)l.shape.d_v;
  const float *top = l.top + head * (size_t)l.chunks;
  const float *mass = l.mass + head * (size_t)l.chunks;
  const float *more = l.more ? l.more + 2 * head : nullptr;
  float *out = l.out + head * (d_v + 1);
  int n = (l.entries[head] + KV_GPU_CHUNK - 1) / KV_GPU_CHUNK, j = kv_thread();
  if (more && !(more[1] > 0)) more = nullptr;
  const float *sink = l.sinks ? l.sinks + head : nullptr;
  float m = largest(top, n, more, sink);
  for (int first = 0; first < l.shape.d_v; first += KV_BLOCK) {
    int left = l.shape.d_v - first, width = left < KV_BLOCK ? left : KV_BLOCK;
    const float *from = l.part + head * (size_t)l.chunks * d_v + first;
    joined a = chain({from, d_v, width, n}, stage, top, mass, m);
    int x = first + (j < width ? j : width - 1);
    if (more) {
      float w = kv_expm(kv_sub(more[0], m));
      a.all = kv_fma(w, more[1], a.all);
      a.o = kv_fma(w, l.more_a[head * d_v + (size_t)x], a.o);
    }
    if (sink) a.all = kv_add(kv_expm(kv_sub(*sink, m)), a.all);
    if (j < width) out[x] = kv_div(a.o, a.all);
    if (first + j == 0) out[d_v] = kv_add(m, kv_log(a.all));
  }
}

extern "C" void kv_gpu_start_join(void *stream, const kv_gpu_layer *l) {
  KV_LAUNCH(stream, join, (unsigned)l->shape.n_heads, KV_BLOCK, *l);
}
