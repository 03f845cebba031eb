/* SPDX-License-Identifier: Apache-2.0
 *
 * Similarity of the keys of a lane, as in ref/parts/similar.h, by many blocks a
 * lane: one kernel scales every key to length 1, the next one has a block for
 * each KV_SIDE rows of the cosines, which computes all columns. Each pair is
 * computed twice, once for each of its rows, so that blocks share no sum.
 *
 * A starter of a compression starts both before its hook, which takes their
 * results as the first of its workspace, and calls kv_gpu_repeated(_among):
 *
 *   struct x_rule { static __device__ functions, by any thread:
 *     bool due(at, lane): is the lane compressed now?
 *     bool counts(at, lane, i): is entry i compared?
 *     float least(at): the cosine above which two keys count as alike };
 *   static void on_compress(void *s, const kv_gpu_layer *l) {
 *     kv_gpu_start_similar<x_rule>(s, l);
 *     kv_on_compress_lane<compress_lane>(s, l);
 *   }
 *
 * x is the method: two rules of one name would be one kernel to a linker.
 * A block that has no rows, or a lane that is not due, returns at once.
 * Cost: n^2 d fused multiplications, n d floats of workspace.
 */
#ifndef KV_GPU_SIMILAR_CUH
#define KV_GPU_SIMILAR_CUH

#include "gpu/block/tile.cuh"
#include "gpu/parts/parts_keys.cuh"

extern "C" {
#include "ref/parts/similar.h"
}

/* What the kernels leave of a lane's n entries; kv_repeated's numbers. */
typedef struct kv_gpu_similar {
  float *unit;   /* [n][d] keys of length 1; zeros for one that does not count
                  */
  int64_t *sum;  /* [n] sums of the cosines with all others, kv_fix_cosine */
  int32_t *last; /* [n] the last other entry similar to it; -1: none */
} kv_gpu_similar;

/* Takes its workspace; the same for both kernels and the hook, if each takes it
 * first of the lane's workspace. */
KV_DEVICE kv_gpu_similar kv_gpu_take_similar(kv_gpu_at &at) {
  size_t n = (size_t)at.layer->shape.n_tokens, d = (size_t)at.layer->shape.d;
  float *unit = KV_GPU_TAKE(at, float, n *d);
  int64_t *sum = KV_GPU_TAKE(at, int64_t, n);
  return kv_gpu_similar{unit, sum, KV_GPU_TAKE(at, int32_t, n)};
}

/* Kernel: a thread scales whole keys to length 1. A key that is not compared
 * becomes zeros, whose cosines add nothing to a sum and are above no threshold.
 */
template <class Rule>
__global__ void kv_run_units(const __grid_constant__ kv_gpu_layer l) {
  if (!kv_gpu_compresses(l)) return;
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  kv_gpu_at at = kv_at_lane(l, lane);
  if (!Rule::due(at, lane)) return;
  int d = l.shape.d, first = (int)blockIdx.x * KV_BLOCK + kv_thread();
  kv_gpu_similar to = kv_gpu_take_similar(at);
  for (int i = first; i < lane->n; i += (int)gridDim.x * KV_BLOCK) {
    kv_gpu_row key = kv_gpu_key_row(l, lane, i);
    float *unit = to.unit + (size_t)i * (size_t)d, square = 0;
    for (int x = 0; x < d; x++) {
      unit[x] = kv_gpu_element(key, x);
      square = kv_fma(unit[x], unit[x], square);
    }
    float length = kv_add(kv_sqrt(square), KV_NO_NORM);
    bool counts = Rule::counts(at, lane, i);
    for (int x = 0; x < d; x++) unit[x] = counts ? kv_div(unit[x], length) : 0;
  }
}

/* Adds a tile's cosines acc, which begins at (row, column), to the thread's
 * sums and last ones of its rows. By any one thread. */
KV_DEVICE void kv_gpu_similar_add(int n, int row, int column, float least,
                                  float acc[KV_DOWN_ROWS][KV_ACROSS],
                                  int64_t *sum, int32_t *last) {
  KV_UNROLL
  for (int i = 0; i < KV_DOWN_ROWS; i++) {
    KV_UNROLL
    for (int j = 0; j < KV_ACROSS; j++) {
      int other = column + j;
      if (other >= n || other == row + i) continue;
      sum[i] += kv_fix_cosine(acc[i][j]);
      if (acc[i][j] > least) last[i] = other;
    }
  }
}

/* Kernel: sums and last ones of KV_SIDE entries. */
template <class Rule>
__global__ void kv_run_similar(const __grid_constant__ kv_gpu_layer l) {
  KV_SHARED(float, a, KV_TILE_ROOM);
  KV_SHARED(float, b, KV_TILE_ROOM);
  const kv_gpu_lane *lane = &l.lane[blockIdx.y];
  int n = lane->n, first = (int)blockIdx.x * KV_SIDE;
  if (!kv_gpu_compresses(l) || first >= n) return;
  kv_gpu_at at = kv_at_lane(l, lane);
  if (!Rule::due(at, lane)) return;
  kv_gpu_similar to = kv_gpu_take_similar(at);
  int d = l.shape.d, row = first + kv_tile_row(), column = kv_tile_column();
  float acc[KV_DOWN_ROWS][KV_ACROSS], least = Rule::least(at);
  int64_t sum[KV_DOWN_ROWS] = {0};
  int32_t last[KV_DOWN_ROWS];
  KV_UNROLL
  for (int i = 0; i < KV_DOWN_ROWS; i++) last[i] = -1;
  for (int c = 0; c < n; c += KV_SIDE) {
    auto of = [&](int from) {
      return [=](int r, int x) {
        return to.unit[(size_t)(from + r) * (size_t)d + (size_t)x];
      };
    };
    kv_tile_products(d, n - first, of(first), n - c, of(c), a, b, acc);
    kv_gpu_similar_add(n, row, c + column, least, acc, sum, last);
  }
  KV_UNROLL
  for (int i = 0; i < KV_DOWN_ROWS; i++) {
    for (int step = KV_SPAN / 2; step; step >>= 1) {
      sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], step);
      int32_t other = __shfl_xor_sync(0xffffffffu, last[i], step);
      last[i] = other > last[i] ? other : last[i];
    }
    if (column != 0 || row + i >= n) continue;
    to.sum[row + i] = sum[i];
    to.last[row + i] = last[i];
  }
}

/* On the host: starts both, for lanes that are due by the rule. */
template <class Rule>
static void kv_gpu_start_similar(void *s, const kv_gpu_layer *l) {
  unsigned lanes = (unsigned)l->lanes;
  dim3 keys((unsigned)((l->stride - 1) / KV_BLOCK + 1), lanes);
  dim3 rows((unsigned)((l->stride - 1) / KV_SIDE + 1), lanes);
  KV_LAUNCH(s, kv_run_units<Rule>, keys, KV_BLOCK, *l);
  KV_LAUNCH(s, kv_run_similar<Rule>, rows, KV_BLOCK, *l);
}

/* Subtracts the cosines that kv_spared selects from the sums: of entry[0..n),
 * or of entries 0..n-1 if entry is NULL. */
KV_DEVICE void kv_gpu_spare(const kv_spare &how, int n, const int32_t *entry,
                            int d, const kv_gpu_similar &of) {
  __syncthreads();
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    int own = entry ? entry[i] : i, j = of.last[own];
    int from = kv_spared(&how, own, &j);
    if (from < 0) continue;
    int64_t fixed = kv_fix_cosine(kv_gpu_dot(
        of.unit + (size_t)own * (size_t)d, of.unit + (size_t)j * (size_t)d, d));
    atomicAdd((unsigned long long *)&of.sum[from], (unsigned long long)-fixed);
  }
  __syncthreads();
}

/* r[entry[i]], i < n: kv_repeated of only the listed entries, if the rule
 * counts no others. room [n]: scratch. By all threads of the block together;
 * ends with a barrier. Changes of.sum: call it once. */
KV_DEVICE void kv_gpu_repeated_among(kv_gpu_at &at, int n, const int32_t *entry,
                                     const kv_spare &how,
                                     const kv_gpu_similar &of, float *room,
                                     float *r) {
  kv_gpu_spare(how, n, entry, at.layer->shape.d, of);
  for (int i = kv_thread(); i < n; i += KV_BLOCK)
    room[i] = kv_div(kv_unfix_cosine(of.sum[entry[i]]), (float)n);
  __syncthreads();
  kv_gpu_probabilities(n, room);
  for (int i = kv_thread(); i < n; i += KV_BLOCK) r[entry[i]] = room[i];
  __syncthreads();
}

/* kv_repeated of all n entries, [n] of the hook's workspace; the same way. */
KV_DEVICE float *kv_gpu_repeated(kv_gpu_at &at, int n, const kv_spare &how,
                                 const kv_gpu_similar &of) {
  float *r = KV_GPU_TAKE(at, float, n);
  kv_gpu_spare(how, n, nullptr, at.layer->shape.d, of);
  for (int j = kv_thread(); j < n; j += KV_BLOCK)
    r[j] = kv_div(kv_unfix_cosine(of.sum[j]), (float)n);
  __syncthreads();
  kv_gpu_probabilities(n, r);
  return r;
}

#endif
