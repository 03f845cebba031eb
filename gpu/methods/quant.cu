/* SPDX-License-Identifier: Apache-2.0
 *
 * Quant on a device: the twin of ref/methods/quant.c, which defines what it
 * does.
 *
 * Allowed local: kv_run_compress<compress_lane>, kv_run_layer<compress_layer>,
 *   what a hook or a format passes by reference, once an entry settled
 */
#include "gpu/lane/recode.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/methods/quant.h"

/* The index of a side's coding in this layer, or AS_IT_CAME. */
static __device__ int index_of(const kv_gpu_at &at, int side) {
  const params *o = (const params *)at.params;
  return o->coding[side][kv_by_layer_at(at.layer->layer)];
}

static __device__ int coding_of(const kv_gpu_at &at, int side) {
  int i = index_of(at, side);
  return i == AS_IT_CAME ? (int)KV_SAME : kv_gpu_coded(at, i);
}

static __device__ kv_quant_own *own_of(const kv_gpu_at &at,
                                       const kv_gpu_lane *lane) {
  return (kv_quant_own *)kv_gpu_own(at, lane);
}

/* Sum x of the lane's keys before RoPE, in fixed point. */
static __device__ int64_t sum_of(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                 int x) {
  int64_t sum = 0;
  for (int i = 0; i < lane->n; i++)
    sum += kv_quant_fix(kv_gpu_key_back(l, lane, kv_gpu_turned_of(l), i, x));
  return sum;
}

/* Rows that are prepared at once, to find the largest of them. */
static __device__ int room_of(int width) {
  int rows = 8192 / width;
  return rows ? rows : 1;
}

/* Bits of the largest magnitude of a side's prepared rows. */
static __device__ uint32_t largest(kv_gpu_at &at, kv_gpu_lane *lane, int side) {
  const kv_gpu_layer &l = *at.layer;
  bool key = side == KEYS;
  int width = key ? l.shape.d : l.shape.d_v, most_rows = room_of(width);
  const kv_gpu_slab *slab =
      &(key ? lane->k_slab : lane->v_slab)[coding_of(at, side)];
  float *room = KV_GPU_TAKE(at, float, most_rows *width);
  uint32_t most = 0;
  for (int first = 0; first < lane->n; first += most_rows) {
    int rows = lane->n - first < most_rows ? lane->n - first : most_rows;
    for (int e = kv_thread(); e < rows * width; e += KV_BLOCK) {
      int i = first + e / width, x = e % width;
      room[e] = key ? kv_gpu_key(l, lane, i, x) : kv_gpu_value(l, lane, i, x);
    }
    kv_gpu_prepare(
        *slab, rows, false, [&](int r) { return room + r * width; },
        [&](int r) { return kv_gpu_turn_of(l, lane->id[first + r]); });
    for (int e = kv_thread(); e < rows * width; e += KV_BLOCK) {
      uint32_t a = kv_bits(room[e]) & 0x7fffffffu;
      if (a > most) most = a;
    }
    __syncthreads();
  }
  return kv_block_max(most);
}

static __device__ void arrive(kv_gpu_at &at, kv_gpu_lane *lane, int) {
  const params *o = (const params *)at.params;
  const kv_gpu_layer &l = *at.layer;
  bool shifts = index_of(at, KEYS) != AS_IT_CAME && o->key_bias != KEEP;
  bool scales = false;
  for (int side = 0; side < SIDES; side++) {
    int i = index_of(at, side);
    scales |= i != AS_IT_CAME && o->calibrated[i];
  }
  kv_quant_own *own = own_of(at, lane);
  float *u = (float *)(own + 1);
  int d = l.shape.d;
  if (!shifts && !scales) return;
  bool known = own->known;
  __syncthreads();
  if (known) return;
  for (int x = kv_thread(); shifts && x < d; x += KV_BLOCK)
    if (o->key_bias == MEAN)
      u[x] = kv_quant_mean(sum_of(l, lane, x), lane->n);
    else if (l.k_bias)
      u[x] = l.k_bias[lane->kv_head * d + x];
  __syncthreads();
  for (int side = 0; side < SIDES; side++) {
    int i = index_of(at, side);
    if (i == AS_IT_CAME || !o->calibrated[i]) continue;
    uint32_t most = largest(at, lane, side);
    if (kv_thread() != 0) continue;
    own->most[side] = most;
    own->block[side] = o->block[i];
    own->block[side].whole = kv_quant_scale(&o->block[i], most);
  }
  if (kv_thread() == 0) own->known = ARRIVED;
  __syncthreads();
}

/* By one thread: gives all lanes of the layer the scale of the largest of their
 * magnitudes. */
static __device__ void share_scale(const kv_gpu_at &at, kv_gpu_lane *lane,
                                   int lanes, int side) {
  uint32_t most = 0;
  for (int j = 0; j < lanes; j++) {
    uint32_t own = own_of(at, &lane[j])->most[side];
    if (own > most) most = own;
  }
  for (int j = 0; j < lanes; j++) {
    kv_blocked *block = &own_of(at, &lane[j])->block[side];
    block->whole = kv_quant_scale(block, most);
  }
}

static __device__ void code(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int k = coding_of(at, KEYS), v = coding_of(at, VALUES);
  int end = lane->n - o->residual;
  if (k == KV_SAME && v == KV_SAME) return;
  int first = kv_gpu_first_full(k == KV_SAME ? lane->v : lane->k, end);
  kv_gpu_entries rows = {first < end ? end - first : 0, first, nullptr};
  kv_gpu_recode(at, lane, rows, 1, k, v);
}

/* Does the lane wait for a scale from all lanes of its layer? */
static __device__ bool waits(const kv_gpu_at &at, const kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  return o->scaling == TENSOR && own_of(at, lane)->known != SCALED;
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  if (!waits(at, lane)) code(at, lane);
}

static __device__ void compress_layer(kv_gpu_at &at, kv_gpu_lane *lane,
                                      int lanes) {
  if (!waits(at, &lane[0])) return;
  __syncthreads();
  if (kv_thread() == 0) {
    share_scale(at, lane, lanes, KEYS);
    share_scale(at, lane, lanes, VALUES);
    for (int j = 0; j < lanes; j++) own_of(at, &lane[j])->known = SCALED;
  }
  __syncthreads();
  for (int j = 0; j < lanes; j++) {
    size_t used = at.used;
    code(at, &lane[j]);
    __syncthreads();
    at.used = used;
  }
}

KV_GPU_METHOD(quant, .arrive = kv_on_arrive<arrive>,
              .compress_lane = kv_on_compress_lane<compress_lane>,
              .compress_layer = kv_on_compress_layer<compress_layer>);
