/* SPDX-License-Identifier: Apache-2.0
 *
 * Quant on a device: the twin of ref/methods/quant.c, which defines what it
 * does.
 *
 * Allowed local: kv_run_compress<compress_lane>,
 *   what a hook or a format passes by reference, once an entry settled
 */
#include "gpu/lane/verbs.cuh"
#include "gpu/parts/parts.cuh"
#include "ref/methods/quant.h"

static __device__ int coding_of(const kv_gpu_at &at, const params *o,
                                int side) {
  int i = o->coding[side];
  return i == AS_IT_CAME ? (int)KV_SAME : kv_gpu_coded(at, i);
}

/* Sum x of the lane's keys before RoPE, in fixed point. */
static __device__ int64_t sum_of(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                                 int x) {
  kv_gpu_pair p = kv_gpu_pair_of(kv_gpu_turned_of(l), l.shape.d, x);
  int64_t sum = 0;
  for (int i = 0; i < lane->n; i++) {
    kv_gpu_row key = kv_gpu_key_row(l, lane, i);
    const float *turn = kv_gpu_turn_of(l, lane->id[i]);
    float y = turn ? kv_gpu_back(p, turn, x, kv_gpu_element(key, p.first),
                                 kv_gpu_element(key, p.second))
                   : kv_gpu_element(key, x);
    sum += kv_quant_fix(y);
  }
  return sum;
}

/* Bits of the largest magnitude of a side's prepared rows. */
static __device__ uint32_t largest(kv_gpu_at &at, kv_gpu_lane *lane, int side) {
  const kv_gpu_layer &l = *at.layer;
  bool key = side == KEYS;
  int width = key ? l.shape.d : l.shape.d_v;
  int format = coding_of(at, (const params *)at.params, side);
  const kv_gpu_slab *slab = &(key ? lane->k_slab : lane->v_slab)[format];
  float *row = KV_GPU_TAKE(at, float, width);
  uint32_t most = 0;
  for (int i = 0; i < lane->n; i++) {
    kv_gpu_prepare_entry(l, lane, i, key, *slab, row);
    for (int x = kv_thread(); x < width; x += KV_BLOCK) {
      uint32_t a = kv_bits(row[x]) & 0x7fffffffu;
      if (a > most) most = a;
    }
  }
  return kv_block_max(most);
}

static __device__ void arrive(kv_gpu_at &at, kv_gpu_lane *lane, int) {
  const params *o = (const params *)at.params;
  const kv_gpu_layer &l = *at.layer;
  bool shifts = o->coding[KEYS] != AS_IT_CAME && o->key_bias != KEEP;
  kv_quant_own *own = (kv_quant_own *)kv_gpu_own(at, lane);
  float *u = (float *)(own + 1);
  int d = l.shape.d;
  if (!shifts && !o->calibrated[KEYS] && !o->calibrated[VALUES]) return;
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
    uint32_t most = o->calibrated[side] ? largest(at, lane, side) : 0;
    if (kv_thread() == 0) own->block[side] = o->block[side];
    if (kv_thread() == 0 && o->calibrated[side])
      own->block[side].whole = kv_quant_scale(&o->block[side], most);
  }
  if (kv_thread() == 0) own->known = 1;
  __syncthreads();
}

static __device__ void compress_lane(kv_gpu_at &at, kv_gpu_lane *lane) {
  const params *o = (const params *)at.params;
  int32_t *list = KV_GPU_TAKE(at, int32_t, 1);
  int k = coding_of(at, o, KEYS), v = coding_of(at, o, VALUES);
  int end = lane->n - o->residual;
  if (k == KV_SAME && v == KV_SAME) return;
  const kv_cell_ref *side = k == KV_SAME ? lane->v : lane->k;
  for (int i = kv_gpu_first_full(side, end); i < end; i++) {
    if (kv_thread() == 0) list[0] = i; /* not &i: registers have no address */
    __syncthreads();
    kv_gpu_recode(at, lane, 1, list, k, v);
  }
}

KV_GPU_METHOD(quant, .arrive = kv_on_arrive<arrive>,
              .compress_lane = kv_on_compress_lane<compress_lane>);
