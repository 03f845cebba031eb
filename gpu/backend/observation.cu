/* SPDX-License-Identifier: Apache-2.0
 *
 * Observation: arithmetic 4. Computes the probabilities of the tile's query
 * rows over what each sees (one block for each row and head), and their sums
 * over the rows (one thread for each entry).
 */
#include "gpu/block/read.cuh"
#include "gpu/lane/entry.cuh"
#include "gpu/shared/device.h"
#include "ref/ground/arith.h"

constexpr int LOADS = 4; /* of 16 bytes that a thread has on their way */

/* Largest of s[0..n); with `check`, the row of the prompt is reported if one of
 * them is not finite. */
static __device__ float largest(const kv_gpu_layer &l, int lane, int h, int row,
                                bool check, const float *s, int n) {
  uint32_t best = 0;
  bool bad = false;
  kv_block_read<LOADS>(s, n, [&](int, const float *own, int each) {
    KV_UNROLL
    for (int j = 0; j < each; j++) {
      uint32_t key = kv_key(own[j]);
      best = key > best ? key : best;
      bad = bad || !kv_finite(own[j]);
    }
  });
  unsigned long long at = (unsigned long long)row << 32 | (unsigned)h;
  if (bad && check) atomicMin((unsigned long long *)&l.bad[lane], at);
  return kv_of_key(kv_block_max(best));
}

/* p[i] = e^(s[i] - top); returns what they add up to. */
static __device__ int64_t exponentials(const float *s, int n, float top,
                                       float *p) {
  int64_t mass = 0;
  kv_block_read<LOADS>(s, n, [&](int i, float *own, int each) {
    KV_UNROLL
    for (int j = 0; j < each; j++) {
      own[j] = kv_expm(kv_sub(own[j], top));
      mass += kv_fix(own[j]);
    }
    kv_block_write(p + i, own, each);
  });
  return kv_block_sum(mass);
}

static __global__ void probabilities(kv_gpu_layer l) {
  int r = (int)blockIdx.x, h = (int)blockIdx.y, row = l.clock->row + r;
  int which = h / (l.shape.n_heads / l.lanes);
  size_t at =
      ((size_t)r * (size_t)l.shape.n_heads + (size_t)h) * (size_t)l.stride;
  const float *s = l.s + at;
  float *p = l.p + at;
  int n = kv_gpu_visible(l, &l.lane[which], r);
  bool check = row < l.shape.prompt_len;
  bool wanted = l.needs.want & (KV_P | KV_SUM);
  if (!check && !wanted) return;
  float top = largest(l, which, h, row, check, s, n);
  if (!wanted) return;
  const float *sink = l.sinks ? l.sinks + h : nullptr;
  if (sink) top = kv_max(top, *sink);
  int64_t mass = exponentials(s, n, top, p);
  if (sink) mass += kv_fix(kv_expm(kv_sub(*sink, top)));
  float share = kv_div(1.0f, kv_unfix(mass));
  kv_block_read<LOADS>(p, n, [&](int i, float *own, int each) {
    KV_UNROLL
    for (int j = 0; j < each; j++) own[j] = kv_mul(own[j], share);
    kv_block_write(p + i, own, each);
  });
}

static __global__ void sums(kv_gpu_layer l, int rows) {
  int h = (int)blockIdx.y, i = (int)blockIdx.x * KV_BLOCK + kv_thread();
  const kv_gpu_lane *lane = &l.lane[h / (l.shape.n_heads / l.lanes)];
  int64_t sum = 0;
  if (i >= lane->n) return;
  for (int r = 0; r < rows; r++)
    if (i < kv_gpu_visible(l, lane, r))
      sum += kv_fix(l.p[((size_t)r * (size_t)l.shape.n_heads + (size_t)h) *
                            (size_t)l.stride +
                        (size_t)i]);
  l.sum[(size_t)h * (size_t)l.stride + (size_t)i] = sum;
}

extern "C" void kv_gpu_start_observation(void *stream, const kv_gpu_layer *l,
                                         int rows) {
  unsigned heads = (unsigned)l->shape.n_heads;
  KV_LAUNCH(stream, probabilities, dim3((unsigned)rows, heads), KV_BLOCK, *l);
  if (l->needs.want & KV_SUM)
    KV_LAUNCH(stream, sums, dim3((unsigned)l->chunks, heads), KV_BLOCK, *l,
              rows);
}
