/* SPDX-License-Identifier: Apache-2.0
 *
 * Evidence: arithmetic 4. Computes the probabilities of the tile's query rows
 * over what each sees (one block for each row and head), and their sums over
 * the rows (one thread for each entry).
 */
#include "gpu/block/block.cuh"
#include "gpu/shared/device.h"
#include "ref/ground/arith.h"

/* How many entries of the lane row r of the tile sees. */
static __device__ int seen_by(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                              int r) {
  int last = l.clock->first + l.clock->count;
  return lane->n - (last - (l.clock->row + r + 1));
}

static __device__ float largest(const float *s, int n) {
  uint64_t best = 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    uint64_t key = kv_key(s[i]);
    best = key > best ? key : best;
  }
  uint32_t key = (uint32_t)kv_block_max(best);
  return kv_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

static __device__ void check_row(const kv_gpu_layer &l, int lane, int h,
                                 int row, const float *s, int n) {
  bool bad = false;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) bad = bad || !kv_finite(s[i]);
  if (!bad) return;
  unsigned long long at = (unsigned long long)row << 32 | (unsigned)h;
  atomicMin((unsigned long long *)&l.bad[lane], at);
}

static __global__ void probabilities(kv_gpu_layer l) {
  int r = (int)blockIdx.x, h = (int)blockIdx.y;
  int which = h / (l.shape.n_heads / l.lanes);
  const kv_gpu_lane *lane = &l.lane[which];
  size_t at =
      ((size_t)r * (size_t)l.shape.n_heads + (size_t)h) * (size_t)l.stride;
  const float *s = l.s + at;
  float *p = l.p + at;
  int n = seen_by(l, lane, r);
  if (l.clock->row + r < l.shape.prompt_len)
    check_row(l, which, h, l.clock->row + r, s, n);
  if (!(l.needs.want & (KV_P | KV_SUM))) return;
  float top = largest(s, n);
  int64_t mass = 0;
  for (int i = kv_thread(); i < n; i += KV_BLOCK) {
    p[i] = kv_expm(kv_sub(s[i], top));
    mass += kv_fix(p[i]);
  }
  float share = kv_div(1.0f, kv_unfix(kv_block_sum(mass)));
  for (int i = kv_thread(); i < n; i += KV_BLOCK) p[i] = kv_mul(p[i], share);
}

static __global__ void sums(kv_gpu_layer l, int rows) {
  int h = (int)blockIdx.y, i = (int)blockIdx.x * KV_BLOCK + kv_thread();
  const kv_gpu_lane *lane = &l.lane[h / (l.shape.n_heads / l.lanes)];
  int64_t sum = 0;
  if (i >= lane->n) return;
  for (int r = 0; r < rows; r++)
    if (i < seen_by(l, lane, r))
      sum += kv_fix(l.p[((size_t)r * (size_t)l.shape.n_heads + (size_t)h) *
                            (size_t)l.stride +
                        (size_t)i]);
  l.sum[(size_t)h * (size_t)l.stride + (size_t)i] = sum;
}

extern "C" void kv_gpu_start_evidence(void *stream, const kv_gpu_layer *l,
                                      int rows) {
  unsigned heads = (unsigned)l->shape.n_heads;
  KV_LAUNCH(stream, probabilities, dim3((unsigned)rows, heads), KV_BLOCK, *l);
  if (l->needs.want & KV_SUM)
    KV_LAUNCH(stream, sums, dim3((unsigned)l->chunks, heads), KV_BLOCK, *l,
              rows);
}
