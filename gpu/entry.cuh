/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of an entry as attention reads them, without rotation: of a row of
 * the trace, of merged fp32 rows, of codes. Every function is one thread's
 * and knows no barrier.
 *
 * Who reads many elements of an entry names the row once (kv_gpu_key_row) and
 * asks it for elements; kv_gpu_key does both. A row stays good until a verb
 * changes the lane. The trace and every slab begin 256-byte aligned.
 */
#ifndef KV_GPU_ENTRY_CUH
#define KV_GPU_ENTRY_CUH

#include "gpu/format_kivi.cuh"

/* slab NULL: elements of `type` at `at`; else codes of `member` there. */
typedef struct kv_gpu_row {
  const char *at;
  const kv_gpu_slab *slab;
  kv_dtype type;
  int member;
} kv_gpu_row;

/* kv_from_f16 without its ways: the bits of a half as a small binary32, times
 * 2^112, are it exactly; of what is not finite they are placed. */
KV_DEVICE float kv_gpu_from_f16(uint16_t h) {
  uint32_t a = (uint32_t)(h & 0x7fffu) << 13;
  uint32_t u = kv_bits(kv_mul(kv_float(a), 0x1p112f));
  uint32_t past = 0x7f800000u | a | (a > 0x0f800000u ? 0x400000u : 0);
  return kv_float((a < 0x0f800000u ? u : past) | (uint32_t)(h & 0x8000u) << 16);
}

KV_DEVICE float kv_gpu_widen(kv_dtype type, uint16_t h) {
  return type == KV_F16 ? kv_gpu_from_f16(h) : kv_from_bf16(h);
}

KV_DEVICE float kv_gpu_element(const kv_gpu_row &r, int x) {
  if (r.slab) return kv_gpu_decode(*r.slab, r.at, r.member, x);
  if (r.type == KV_F32) return ((const float *)r.at)[x];
  return kv_gpu_widen(r.type, ((const uint16_t *)r.at)[x]);
}

/* Row of token t, lane's KV head, in a side of the trace. */
KV_DEVICE kv_gpu_row kv_gpu_trace_row(const kv_gpu_layer &l,
                                      const kv_gpu_lane *lane, const char *side,
                                      int width, uint32_t t) {
  kv_dtype type = l.shape.dtype;
  size_t row = (size_t)lane->kv_head * (size_t)l.shape.n_tokens + t;
  size_t size = type == KV_F32 ? 4 : 2;
  kv_gpu_row r = {side + row * (size_t)width * size, nullptr, type, 0};
  return r;
}

KV_DEVICE kv_gpu_row kv_gpu_slab_row(const kv_gpu_slab *slab,
                                     const kv_cell_ref &ref) {
  const kv_gpu_slab *s = &slab[ref.format];
  const char *block = s->data + (size_t)ref.block * s->size;
  kv_gpu_row r = {block, s->kind == KV_GPU_ROWS ? nullptr : s, KV_F32,
                  ref.member};
  return r;
}

KV_DEVICE kv_gpu_row kv_gpu_key_row(const kv_gpu_layer &l,
                                    const kv_gpu_lane *lane, int i) {
  if (lane->k && lane->k[i].format != KV_RAW)
    return kv_gpu_slab_row(lane->k_slab, lane->k[i]);
  return kv_gpu_trace_row(l, lane, l.k, l.shape.d, lane->id[i]);
}

KV_DEVICE kv_gpu_row kv_gpu_value_row(const kv_gpu_layer &l,
                                      const kv_gpu_lane *lane, int i) {
  if (lane->v && lane->v[i].format != KV_RAW)
    return kv_gpu_slab_row(lane->v_slab, lane->v[i]);
  return kv_gpu_trace_row(l, lane, l.v, l.shape.d_v, lane->id[i]);
}

/* Element x of K, of V, of entry i. */
KV_DEVICE float kv_gpu_key(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                           int i, int x) {
  return kv_gpu_element(kv_gpu_key_row(l, lane, i), x);
}

KV_DEVICE float kv_gpu_value(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                             int i, int x) {
  return kv_gpu_element(kv_gpu_value_row(l, lane, i), x);
}

/* RN(merge_bias * ln(weight)) of entry i; 0 where nothing is biased. */
KV_DEVICE float kv_gpu_bias(const kv_gpu_layer &l, const kv_gpu_lane *lane,
                            int i) {
  if (l.needs.merge_bias == 0 || lane->weight[i] == 1) return 0;
  return kv_mul(l.needs.merge_bias, kv_log((float)lane->weight[i]));
}

#endif
