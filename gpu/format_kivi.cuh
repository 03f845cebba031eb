/* SPDX-License-Identifier: Apache-2.0
 *
 * KIVI's formats on the device: blocks byte for byte as ref/format_kivi.c
 * makes them, whose first comment defines them. The block of threads codes a
 * group; one thread decodes one element.
 *
 * Minimum and maximum are chosen by key, so every order of looking gives the
 * same ones. Metadata is aligned to 2 bytes: a block to 16, by its slab.
 * Cost: encode O(members * width / KV_BLOCK) and two barriers and a vote.
 */
#ifndef KV_GPU_FORMAT_KIVI_CUH
#define KV_GPU_FORMAT_KIVI_CUH

#include "gpu/block.cuh"
#include "gpu/lane.h"
#include "ref/arith.h"

/* Bytes of a row's codes: element x is in byte x mod plane, the first plane
 * in the low bits. */
KV_DEVICE int kv_gpu_plane(const kv_gpu_slab &s) {
  return (s.width * s.bits + 7) / 8;
}

/* How many scales, and as many minima, a block begins with. */
KV_DEVICE int kv_gpu_ranges(const kv_gpu_slab &s) {
  return s.kind == KV_GPU_TOKEN ? (s.width + s.group - 1) / s.group : s.width;
}

/* --- fp16, as ref/format_kivi.c rounds ----------------------------------- */

/* A finite half, exactly: its bits as a small binary32, times 2^112. */
KV_DEVICE float kv_gpu_half(const uint16_t *at, int i) {
  uint32_t h = at[i];
  float a = kv_mul(kv_float((h & 0x7fffu) << 13), 0x1p112f);
  return kv_float(kv_bits(a) | (h & 0x8000u) << 16);
}

KV_DEVICE float kv_gpu_to_half(float x) {
  uint32_t u = kv_bits(x), a = u & 0x7fffffffu;
  uint32_t r = (a + 0xfffu + (a >> 13 & 1u)) & ~0x1fffu;
  if (a < 0x38800000u) /* subnormal: multiples of 2^-24 */
    r = kv_bits(kv_sub(kv_add(kv_float(a), 0.5f), 0.5f));
  if (r >= 0x47800000u) r = 0x7f800000u;
  return kv_float(r | (u & 0x80000000u));
}

/* The same for finite multiples of 2^-24. */
KV_DEVICE float kv_gpu_grid_to_half(float x) {
  uint32_t u = kv_bits(x);
  return kv_float((u + 0xfffu + (u >> 13 & 1u)) & ~0x1fffu);
}

/* --- decoding ------------------------------------------------------------ */

/* Element x of a member of a block. A product of a code and a scale is
 * exact, so the fused operation is the reference's product and sum. */
KV_DEVICE float kv_gpu_decode(const kv_gpu_slab &s, const char *block,
                              int member, int x) {
  int plane = kv_gpu_plane(s), ranges = kv_gpu_ranges(s);
  int g = s.kind == KV_GPU_TOKEN ? x / s.group : x;
  const uint16_t *scale = (const uint16_t *)block;
  const uint8_t *row = (const uint8_t *)block + 4 * (size_t)ranges;
  if (s.kind == KV_GPU_CHANNEL) row += (size_t)member * (size_t)plane;
  float step = kv_gpu_half(scale, g), min = kv_gpu_half(scale + ranges, g);
  int shift = 0;
  for (; x >= plane; x -= plane) shift += s.bits;
  float code = (float)(row[x] >> shift & ((1 << s.bits) - 1));
  if (!s.fp16_ops) return kv_fma(code, step, min);
  return kv_gpu_grid_to_half(
      kv_add(kv_gpu_grid_to_half(kv_mul(code, step)), min));
}

/* --- coding -------------------------------------------------------------- */

/* Scale g and minimum g of a block, from the least and largest number; false
 * where they, or what the largest code decodes to, leave fp16. */
KV_DEVICE bool kv_gpu_set_range(const kv_gpu_slab &s, float min, float max,
                                int g, char *block) {
  float levels = (float)((1 << s.bits) - 1);
  if (s.fp16_ops) {
    min = kv_gpu_to_half(min);
    max = kv_gpu_to_half(max);
  }
  float width = kv_sub(max, min);
  if (s.fp16_ops) width = kv_gpu_to_half(width);
  float scale = kv_gpu_to_half(kv_div(width, levels));
  min = kv_gpu_to_half(min);
  float top = kv_add(kv_gpu_to_half(kv_mul(levels, scale)), min);
  uint16_t *to = (uint16_t *)block + g;
  to[0] = kv_to_f16(scale);
  to[kv_gpu_ranges(s)] = kv_to_f16(min);
  return kv_finite(scale) && kv_finite(min) &&
         (!s.fp16_ops || kv_finite(kv_gpu_to_half(top)));
}

/* Range g over the numbers that share it: channel g of all rows, or run g of
 * the only row. */
template <class Rows>
KV_DEVICE bool kv_gpu_range(const kv_gpu_slab &s, int members, int g,
                            const Rows &row, char *block) {
  bool token = s.kind == KV_GPU_TOKEN;
  int first = token ? g * s.group : g, end = first + (token ? s.group : 1);
  if (end > s.width) end = s.width;
  if (token) members = 1;
  float lo = row(0, first), hi = lo;
  for (int m = 0; m < members; m++)
    for (int x = first; x < end; x++) {
      float v = row(m, x);
      lo = kv_min(lo, v);
      hi = kv_max(hi, v);
    }
  return kv_gpu_set_range(s, lo, hi, g, block);
}

/* Code of x under the stored scale and minimum; scale 0: every code 0. */
KV_DEVICE uint32_t kv_gpu_code(const kv_gpu_slab &s, float scale, float min,
                               float x) {
  float y, top = (float)((1 << s.bits) - 1);
  if (!(scale > 0)) return 0;
  if (s.fp16_ops) {
    y = kv_gpu_to_half(kv_sub(kv_gpu_to_half(x), min));
    y = kv_gpu_to_half(kv_div(y, scale));
  } else {
    y = kv_div(kv_sub(x, min), scale);
  }
  y = y > 0 ? y : 0;
  y = y < top ? y : top;
  return kv_bits(kv_add(y, 0x1p23f)) & 0xffu; /* rint: the lowest bits */
}

/* Byte b of row m: one code of every plane. */
template <class Rows>
KV_DEVICE uint8_t kv_gpu_code_byte(const kv_gpu_slab &s, int m, int b,
                                   const Rows &row, const char *block) {
  const uint16_t *scale = (const uint16_t *)block;
  const uint16_t *min = scale + kv_gpu_ranges(s);
  uint32_t byte = 0;
  int plane = kv_gpu_plane(s), shift = 0;
  for (int x = b; x < s.width; x += plane, shift += s.bits) {
    int g = s.kind == KV_GPU_TOKEN ? x / s.group : x;
    byte |=
        kv_gpu_code(s, kv_gpu_half(scale, g), kv_gpu_half(min, g), row(m, x))
        << shift;
  }
  return (uint8_t)byte;
}

/* Codes rows 0..members-1, row(m, x) their elements, into a block that none
 * of them lies in. false, for all threads: a scale does not fit. */
template <class Rows>
KV_DEVICE bool kv_gpu_encode(const kv_gpu_slab &s, int members, const Rows &row,
                             char *block) {
  int ranges = kv_gpu_ranges(s), plane = kv_gpu_plane(s), wrong = 0;
  for (int g = kv_thread(); g < ranges; g += KV_BLOCK)
    wrong += !kv_gpu_range(s, members, g, row, block);
  bool fits = kv_block_sum(wrong) == 0; /* and all ranges are written */
  uint8_t *codes = (uint8_t *)block + 4 * (size_t)ranges;
  int rows = s.kind == KV_GPU_TOKEN ? 1 : members;
  for (int j = kv_thread(); j < rows * plane; j += KV_BLOCK)
    codes[j] = kv_gpu_code_byte(s, j / plane, j % plane, row, block);
  __syncthreads();
  return fits;
}

#endif
