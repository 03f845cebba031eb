/* SPDX-License-Identifier: Apache-2.0
 *
 * A compression that codes tokens along directions, as in ref/parts/lowrank.h,
 * by these kernels in order:
 *
 *   plan     one block: which tokens are coded now, and where
 *   code     blocks that take a few tokens at a time: products, latent vector,
 *            rows
 *   commit   a block a lane: the verbs, then done
 *
 * An element of a latent vector, and of a row, is one thread's, for all tokens
 * of the tile at once, so that a direction is read once for these. A method
 * starts them in place of its hook, by a rule whose functions have the meaning
 * of gpu/parts/residual.cuh; all entries from `from` on are coded:
 *
 *   struct x_rule { how(at): the kv_lowrank; from(at), host(at), done(..) };
 *   KV_GPU_METHOD(x, .compress_layer = kv_gpu_start_lowrank<x_rule>);
 *
 * Functions are called by all threads of a block together with the same
 * arguments and end with a barrier, except kv_gpu_directions and those that
 * take workspace.
 */
#ifndef KV_GPU_LOWRANK_CUH
#define KV_GPU_LOWRANK_CUH

#include "gpu/parts/residual.cuh"

extern "C" {
#include "ref/parts/lowrank.h"
}

/* kv_gpu_take_latents, for tokens that name no references: now, entry, format
 * and block. */
KV_DEVICE kv_gpu_latents kv_gpu_take_directed(kv_gpu_at &at) {
  size_t t = (size_t)at.layer->shape.n_tokens;
  kv_gpu_latents a = {};
  a.now = KV_GPU_TAKE(at, kv_gpu_compression, 1);
  a.entry = KV_GPU_TAKE(at, int32_t, t);
  a.format = KV_GPU_TAKE(at, int32_t, t);
  a.block = KV_GPU_TAKE(at, int32_t, t);
  return a;
}

/* Kernel, one block: fills in the plan. */
template <class Rule>
__global__ void kv_run_directed_plan(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  kv_gpu_latents a = kv_gpu_take_directed(at);
  int from = Rule::from(at), f = kv_gpu_coded(at, 0);
  int n = kv_gpu_compresses(l) ? at.step - from : 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    a.entry[i] = from + i;
    a.format[i] = f;
    a.block[i] = l.lane[0].k_slab[f].used + i;
  }
  if (kv_thread() == 0) *a.now = {from, from + n, 0, n, ~0ull};
}

/* --- coding -------------------------------------------------------------- */

/* The workspace in which a block codes a tile of tokens. */
typedef struct kv_gpu_directed {
  float *x, *row; /* [tile][w] vectors; what they decode to */
  float *z;       /* [tile][o.total] latent vectors */
  char *bytes;    /* a latent vector as it is stored */
} kv_gpu_directed;

/* Takes slot number `which` of a lane, and those before it; at: of that lane,
 * with the plan taken. */
KV_DEVICE kv_gpu_directed kv_gpu_take_slot(kv_gpu_at &at, const kv_lowrank &o,
                                           int which) {
  size_t w = (size_t)kv_gpu_vector_width(at.layer->shape), n = KV_CODE_TILE;
  kv_gpu_directed s = {};
  for (int i = 0; i <= which; i++) {
    s.x = KV_GPU_TAKE(at, float, n *w);
    s.row = KV_GPU_TAKE(at, float, n *w);
    s.z = KV_GPU_TAKE(at, float, n *(size_t)o.total);
    s.bytes = KV_GPU_TAKE(at, char, 8 * ((size_t)o.total + 1));
  }
  return s;
}

/* The directions [rank][width] of a part of the vector. */
KV_DEVICE const float *kv_gpu_directions(const kv_gpu_at &at,
                                         const kv_lowrank &o, int part) {
  int side = part >= o.groups, g = part - side * o.groups;
  const kv_tensor &b = at.asset[KV_KEY_BASIS + side];
  return (const float *)b.data + (size_t)g * (size_t)(b.dim[1] * b.dim[2]);
}

/* s.z = the products of s.x with the directions, m tokens. */
KV_DEVICE void kv_gpu_project(const kv_gpu_at &at, const kv_lowrank &o, int m,
                              const kv_gpu_directed &s) {
  const kv_shape &shape = at.layer->shape;
  int w = kv_gpu_vector_width(shape), to = 0;
  for (int part = 0; part < kv_rank_parts(&o); part++) {
    kv_rank_part p = kv_rank_part_of(&shape, &o, at.layer->layer, part);
    float *z = s.z + to;
    kv_gpu_products<KV_CODE_TILE>(
        m, p.rank, p.width, s.x + p.first, w, kv_gpu_directions(at, o, part),
        [&](int i, int j, float y) { z[i * o.total + j] = y; });
    to += p.rank;
  }
}

/* s.row = the directions weighted by s.z, m tokens. */
KV_DEVICE void kv_gpu_rebuild(const kv_gpu_at &at, const kv_lowrank &o, int m,
                              const kv_gpu_directed &s) {
  const kv_shape &shape = at.layer->shape;
  int w = kv_gpu_vector_width(shape), from = 0;
  for (int part = 0; part < kv_rank_parts(&o); part++) {
    kv_rank_part p = kv_rank_part_of(&shape, &o, at.layer->layer, part);
    const float *basis = kv_gpu_directions(at, o, part), *z = s.z + from;
    for (int x = kv_thread(); x < p.width; x += KV_BLOCK) {
      float acc[KV_CODE_TILE] = {};
      for (int j = 0; j < p.rank; j++) {
        float one = basis[(size_t)j * (size_t)p.width + (size_t)x];
        KV_UNROLL
        for (int i = 0; i < KV_CODE_TILE; i++)
          acc[i] = kv_fma(z[(i < m ? i : 0) * o.total + j], one, acc[i]);
      }
      KV_UNROLL
      for (int i = 0; i < KV_CODE_TILE; i++)
        if (i < m) s.row[i * w + p.first + x] = acc[i];
    }
    from += p.rank;
  }
  __syncthreads();
}

/* Codes a tile: writes the stored latent vectors, and the rows that these
 * decode to, to the lanes' blocks. */
KV_DEVICE void kv_gpu_code_directed(const kv_gpu_at &at, const kv_lowrank &o,
                                    const kv_gpu_latents &a,
                                    const kv_gpu_directed &s,
                                    const kv_gpu_tile &t) {
  const kv_gpu_layer &l = *at.layer;
  int w = kv_gpu_vector_width(l.shape);
  for (int x = kv_thread(); x < t.m * w; x += KV_BLOCK)
    s.x[x] = kv_gpu_vector_raw(l, a.entry[t.first + x / w], x % w);
  __syncthreads();
  kv_gpu_project(at, o, t.m, s);
  for (int i = 0; i < t.m; i++) {
    int j = t.first + i;
    if (!kv_gpu_format_delta::put(o.how, s.z + i * o.total, s.bytes))
      kv_gpu_cannot(a, t, i, 0);
    kv_gpu_put_bytes(l, o.how, a.format[j], a.block[j], s.bytes);
  }
  kv_gpu_rebuild(at, o, t.m, s);
  for (int i = 0; i < t.m; i++) kv_gpu_put_row(l, a, t, i, s.row + i * w);
}

/* Kernel: the grid's blocks take turns with the tiles; block (slot, lane) works
 * in that slot of that lane. */
template <class Rule>
__global__ void kv_run_directed_code(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  kv_gpu_at own = kv_at_lane(l, &l.lane[blockIdx.y]);
  const kv_lowrank &o = Rule::how(at);
  kv_gpu_latents a = kv_gpu_take_directed(at);
  int blocks = (int)(gridDim.x * gridDim.y), n = a.now->coded;
  int first = (int)(blockIdx.y * gridDim.x + blockIdx.x);
  if (first * KV_CODE_TILE >= n) return;
  own.used = at.used;
  kv_gpu_directed s = kv_gpu_take_slot(own, o, (int)blockIdx.x);
  for (int i = first; i * KV_CODE_TILE < n; i += blocks) {
    int j = i * KV_CODE_TILE, m = n - j < KV_CODE_TILE ? n - j : KV_CODE_TILE;
    kv_gpu_tile t = {j / KV_LATENT_TILE, j % KV_LATENT_TILE, j, m};
    kv_gpu_code_directed(at, o, a, s, t);
  }
}

/* --- verbs --------------------------------------------------------------- */

/* Kernel, a block a lane. */
template <class Rule>
__global__ void kv_run_directed_commit(const __grid_constant__ kv_gpu_layer l) {
  kv_gpu_lane *lane = &l.lane[blockIdx.x];
  kv_gpu_at at = kv_at_lane(l, &l.lane[0]);
  kv_gpu_latents a = kv_gpu_take_directed(at);
  int n = a.now->coded;
  if (n <= 0) return;
  for (int j = 0; j < n; j += KV_LATENT_TILE)
    kv_gpu_commit<Rule>(lane, l, a, j / KV_LATENT_TILE, j,
                        n - j < KV_LATENT_TILE ? n - j : KV_LATENT_TILE);
  Rule::done(at, lane, a.now->end);
}

/* On the host: starts all three; for a method's table. */
template <class Rule>
static void kv_gpu_start_lowrank(void *s, const kv_gpu_layer *l) {
  unsigned lanes = (unsigned)l->lanes;
  dim3 slots((unsigned)KV_CODE_SLOTS, lanes);
  KV_LAUNCH(s, kv_run_directed_plan<Rule>, 1, KV_BLOCK, *l);
  KV_LAUNCH(s, kv_run_directed_code<Rule>, slots, KV_BLOCK, *l);
  KV_LAUNCH(s, kv_run_directed_commit<Rule>, lanes, KV_BLOCK, *l);
}

#endif
