/* SPDX-License-Identifier: Apache-2.0
 *
 * Min-max codes on the device, as ref/formats/minmax.h defines them. CHANNEL
 * selects what shares a scale: element x of all rows, or else runs of `group`
 * elements of the only row.
 *
 * Minimum and maximum are chosen by key (rule 2 of ref/ground/arith.h), so they
 * do not depend on the order. Metadata is aligned to 2 bytes, a block to 16.
 * Cost: encode O(members * width / KV_BLOCK), two barriers and a vote.
 */
#ifndef KV_GPU_FORMATS_MINMAX_CUH
#define KV_GPU_FORMATS_MINMAX_CUH

#include "gpu/block/half.h"
#include "ref/formats/minmax.h"

/* Code b of the four that stand lowest in the bytes of a word, as a float: the
 * code becomes the bits before the point of a power of two, which is
 * subtracted. `mask`: the bits of a code. */
KV_DEVICE float kv_minmax_code(uint32_t codes, uint32_t mask, int b) {
  int at = b < 3 ? 8 * b : 16; /* a float has 23 such bits */
  uint32_t magic = 0x4b000000u - ((uint32_t)at << 23);
  uint32_t word = ((b < 3 ? codes : codes >> 8) & mask << at) | magic;
  return kv_sub(kv_float(word), kv_float(magic));
}

/* A code's number. A product of a code and a scale is exact, so the fused
 * operation is the reference's product and sum. */
template <bool FP16>
KV_DEVICE float kv_minmax_number(float code, float step, float min) {
  if (!FP16) return kv_fma(code, step, min);
  return kv_half_grid(kv_add(kv_half_grid(kv_mul(code, step)), min));
}

template <bool CHANNEL> struct kv_gpu_minmax {
  /* Bytes of a row's codes: element x is in byte x mod plane, the first plane
   * in the low bits. */
  KV_DEVICE int plane(const kv_minmax &c, int width) {
    return (width * c.bits + 7) / 8;
  }

  /* How many scales, and as many minima, a block begins with. */
  KV_DEVICE int ranges(const kv_minmax &c, int width) {
    return CHANNEL ? width : (width + c.group - 1) / c.group;
  }

  KV_DEVICE int range_of(const kv_minmax &c, int x) {
    return CHANNEL ? x : x / c.group;
  }

  KV_DEVICE kv_gpu_coded_size size(const void *settings, int members,
                                   int width) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    int rows = CHANNEL ? members : 1;
    return kv_gpu_coded_size{(int64_t)rows * plane(c, width),
                             (int64_t)ranges(c, width) * 4};
  }

  KV_DEVICE float decode(const void *settings, int width, const char *block,
                         int member, int x) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    int bytes = plane(c, width), n = ranges(c, width), g = range_of(c, x);
    const uint16_t *scale = (const uint16_t *)block;
    const uint8_t *row = (const uint8_t *)block + 4 * (size_t)n;
    if (CHANNEL) row += (size_t)member * (size_t)bytes;
    float step = kv_from_finite_f16(scale[g]),
          min = kv_from_finite_f16(scale[n + g]);
    int shift = 0;
    for (; x >= bytes; x -= bytes) shift += c.bits;
    float code = (float)(row[x] >> shift & ((1 << c.bits) - 1));
    return c.rule == KV_RULE_FP16 ? kv_minmax_number<true>(code, step, min)
                                  : kv_minmax_number<false>(code, step, min);
  }

  /* Scale g and minimum g of a block of n, from the least and largest number;
   * false where they, or what the largest code decodes to, leave fp16. */
  KV_DEVICE bool set_range(const kv_minmax &c, float min, float max, int g,
                           int n, char *block) {
    float levels = (float)((1 << c.bits) - 1);
    bool fp16 = c.rule == KV_RULE_FP16;
    if (fp16) {
      min = kv_round_f16(min);
      max = kv_round_f16(max);
    }
    float width = kv_sub(max, min);
    if (fp16) width = kv_round_f16(width);
    float scale = kv_round_f16(kv_div(width, levels));
    min = kv_round_f16(min);
    float top = kv_add(kv_round_f16(kv_mul(levels, scale)), min);
    uint16_t *to = (uint16_t *)block + g;
    to[0] = kv_to_f16(scale);
    to[n] = kv_to_f16(min);
    return kv_finite(scale) && kv_finite(min) &&
           (!fp16 || kv_finite(kv_round_f16(top)));
  }

  /* The least and the largest of the numbers that share range g. */
  template <class Rows>
  KV_DEVICE void ends(const kv_minmax &c, int members, int width, int g,
                      const Rows &row, float *least, float *largest) {
    int first = CHANNEL ? g : g * c.group;
    int end = first + (CHANNEL ? 1 : c.group);
    if (end > width) end = width;
    float lo = row(0, first), hi = lo;
    for (int m = 0; m < (CHANNEL ? members : 1); m++)
      for (int x = first; x < end; x++) {
        float v = row(m, x);
        lo = kv_min(lo, v);
        hi = kv_max(hi, v);
      }
    *least = lo;
    *largest = hi;
  }

  /* Range g over the numbers that share it. */
  template <class Rows>
  KV_DEVICE bool range(const kv_minmax &c, int members, int width, int g,
                       const Rows &row, char *block) {
    float lo, hi;
    ends(c, members, width, g, row, &lo, &hi);
    return set_range(c, lo, hi, g, ranges(c, width), block);
  }

  /* Scale and minimum by which codes of range g are chosen: those stored or, of
   * KV_RULE_UNROUNDED, 1 / scale and minimum before they were rounded. They are
   * found anew by who needs them, as a block has no room for them. */
  template <class Rows>
  KV_DEVICE void chosen_by(const kv_minmax &c, int members, int width, int g,
                           const Rows &row, const char *block, float *scale,
                           float *min) {
    const uint16_t *from = (const uint16_t *)block + g;
    float hi;
    *scale = kv_from_finite_f16(from[0]);
    *min = kv_from_finite_f16(from[ranges(c, width)]);
    if (c.rule != KV_RULE_UNROUNDED || !(*scale > 0)) return;
    ends(c, members, width, g, row, min, &hi);
    float levels = (float)((1 << c.bits) - 1);
    *scale = kv_div(1, kv_div(kv_sub(hi, *min), levels));
  }

  /* Code of x under such a scale and minimum; scale 0: every code 0. */
  KV_DEVICE uint32_t code(const kv_minmax &c, float scale, float min, float x) {
    float y, top = (float)((1 << c.bits) - 1);
    if (!(scale > 0)) return 0;
    if (c.rule == KV_RULE_UNROUNDED) {
      y = kv_mul(kv_sub(x, min), scale);
    } else if (c.rule == KV_RULE_FP16) {
      y = kv_round_f16(kv_sub(kv_round_f16(x), min));
      y = kv_round_f16(kv_div(y, scale));
    } else {
      y = kv_div(kv_sub(x, min), scale);
    }
    y = y > 0 ? y : 0;
    y = y < top ? y : top;
    return kv_bits(kv_add(y, 0x1p23f)) & 0xffu; /* rint: the lowest bits */
  }

  /* Byte b of row m: one code of every plane. */
  template <class Rows>
  KV_DEVICE uint8_t byte_of(const kv_minmax &c, int members, int width, int m,
                            int b, const Rows &row, const char *block) {
    uint32_t byte = 0;
    int step = plane(c, width), shift = 0, last = -1;
    float scale = 0, min = 0;
    for (int x = b; x < width; x += step, shift += c.bits) {
      int g = range_of(c, x);
      if (g != last) chosen_by(c, members, width, g, row, block, &scale, &min);
      last = g;
      byte |= code(c, scale, min, row(m, x)) << shift;
    }
    return (uint8_t)byte;
  }

  template <class Rows>
  KV_DEVICE bool encode(const void *settings, int members, int width,
                        const Rows &row, char *block) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    int n = ranges(c, width), bytes = plane(c, width);
    bool wrong = false;
    for (int g = kv_thread(); g < n; g += KV_BLOCK)
      wrong |= !range(c, members, width, g, row, block);
    bool fits = !kv_block_any(wrong); /* and all ranges are written */
    uint8_t *codes = (uint8_t *)block + 4 * (size_t)n;
    int rows = CHANNEL ? members : 1;
    for (int j = kv_thread(); j < rows * bytes; j += KV_BLOCK)
      codes[j] = byte_of(c, members, width, j / bytes, j % bytes, row, block);
    __syncthreads();
    return fits;
  }
};

#endif
