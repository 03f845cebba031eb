/* SPDX-License-Identifier: Apache-2.0
 *
 * Min-max codes on the device, as ref/formats/minmax.h defines them, for the
 * formats channel and token. Kernels call kv_gpu_minmax through
 * gpu/formats/format.cuh, which says what ROWS, range, size, decode and encode
 * are for; the others are their parts, any one thread's. CHANNEL selects what
 * shares a scale: element x of all rows of a block, or else runs of `group`
 * elements of its only row.
 *
 * Minimum and maximum are chosen by key (rule 2 of ref/ground/arith.h), so they
 * do not depend on the order. Metadata is aligned to 2 bytes. Cost: encode
 * O(members * width / KV_BLOCK), but for the ends of a range, which one thread
 * looks for, and two votes.
 */
#ifndef KV_GPU_FORMATS_MINMAX_CUH
#define KV_GPU_FORMATS_MINMAX_CUH

#include "gpu/block/half.h"
#include "gpu/formats/passes.cuh"
#include "ref/formats/minmax.h"

/* Code b of four, one in the low bits of each byte of `codes`, as a float;
 * mask: the bits of a code. It becomes the lowest bits of a float that is a
 * power of two, which is subtracted. By any one thread. */
KV_DEVICE float kv_minmax_code(uint32_t codes, uint32_t mask, int b) {
  int at = 8 * (b % 2); /* a float has 23 such bits, two codes of 8 */
  uint32_t magic = 0x4b000000u - ((uint32_t)at << 23);
  uint32_t word = ((b < 2 ? codes : codes >> 16) & mask << at) | magic;
  return kv_sub(kv_float(word), kv_float(magic));
}

/* The least and the largest of some numbers; or a scale and a minimum. */
typedef struct kv_minmax_two {
  float a, b;
} kv_minmax_two;

template <bool CHANNEL> struct kv_gpu_minmax {
  static constexpr bool ROWS = !CHANNEL;

  /* Range g of n; block: its metadata, scales, then minima, in fp16. */
  KV_DEVICE kv_gpu_range range(const kv_minmax &c, int n, int g,
                               const void *block) {
    const uint16_t *from = (const uint16_t *)block + g;
    (void)c;
    return {kv_half(from[0]), kv_half(from[n])};
  }

  /* Bytes of a row's codes: element x is in byte x mod plane, x div plane codes
   * above its low bits. */
  KV_DEVICE int plane(const kv_minmax &c, int width) {
    return (width * c.bits + 7) / 8;
  }

  /* How many scales, and as many minima, a block begins with. */
  KV_DEVICE int ranges(const kv_minmax &c, int width) {
    return CHANNEL ? width : (width + c.group - 1) / c.group;
  }

  /* Which of them element x has. */
  KV_DEVICE int range_of(const kv_minmax &c, int x) {
    return CHANNEL ? x : x / c.group;
  }

  /* Bytes of a block of `members` rows. */
  KV_DEVICE kv_gpu_coded_size size(const void *settings, int members,
                                   int width) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    int rows = CHANNEL ? members : 1;
    return kv_gpu_coded_size{(int64_t)rows * plane(c, width),
                             (int64_t)ranges(c, width) * 4};
  }

  /* Element x of row `member` of a block. */
  KV_DEVICE float decode(const void *settings, int width,
                         const kv_gpu_block &block, int member, int x) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    int bytes = plane(c, width), n = ranges(c, width), g = range_of(c, x);
    const uint16_t *scale = (const uint16_t *)block.metadata;
    const uint8_t *row = (const uint8_t *)block.codes;
    if (CHANNEL) row += (size_t)member * (size_t)bytes;
    float step = kv_from_finite_f16(scale[g]),
          min = kv_from_finite_f16(scale[n + g]);
    int shift = 0;
    for (; x >= bytes; x -= bytes) shift += c.bits;
    float code = (float)(row[x] >> shift & ((1 << c.bits) - 1));
    return kv_fma(code, step, min);
  }

  /* Writes scale g and minimum g of a block of n ranges, from the least and the
   * largest number; false: they leave fp16. */
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
    uint16_t *to = (uint16_t *)block + g;
    to[0] = kv_to_f16(scale);
    to[n] = kv_to_f16(min);
    return kv_finite(scale) && kv_finite(min);
  }

  /* The least (a) and the largest (b) of the numbers that share range g. */
  template <class Rows>
  KV_DEVICE kv_minmax_two ends(const kv_minmax &c, int members, int width,
                               int g, const Rows &row) {
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
    return {lo, hi};
  }

  /* Scale (a) and minimum (b) by which codes of range g are chosen: those
   * stored in the block, or by KV_RULE_UNROUNDED 1 / scale and minimum before
   * they were rounded, from the least and the largest number `of`. */
  KV_DEVICE kv_minmax_two chosen_by(const kv_minmax &c, int width, int g,
                                    kv_minmax_two of, const char *block) {
    const uint16_t *from = (const uint16_t *)block + g;
    float scale = kv_from_finite_f16(from[0]);
    float min = kv_from_finite_f16(from[ranges(c, width)]);
    if (!again(c) || !(scale > 0)) return {scale, min};
    float levels = (float)((1 << c.bits) - 1);
    return {kv_div(1, kv_div(kv_sub(of.b, of.a), levels)), of.a};
  }

  /* True if the least and the largest number are looked for again when codes
   * are chosen, as a block has no room for them. */
  KV_DEVICE bool again(const kv_minmax &c) {
    return !CHANNEL && c.rule == KV_RULE_UNROUNDED;
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

  /* Where codes is NULL, writes range j, and returns as set_range; or else
   * writes byte j of the codes, which has a code of every plane. One function,
   * as `ends` is long. */
  template <class Rows>
  KV_DEVICE bool set(const kv_minmax &c, int members, int width, int j,
                     const Rows &row, char *block, uint8_t *codes) {
    int step = plane(c, width), m = codes ? j / step : 0;
    int x = codes ? j - m * step : CHANNEL ? j : j * c.group;
    int end = codes ? width : x + 1, last = -1, shift = 0;
    uint32_t byte = 0;
    kv_minmax_two of = {0, 0};
    bool fits = true;
    for (; x < end; x += step, shift += c.bits) {
      int g = range_of(c, x);
      if (!codes || (again(c) && g != last))
        of = ends(c, members, width, g, row);
      last = g;
      if (!codes) {
        fits = set_range(c, of.a, of.b, g, ranges(c, width), block);
      } else {
        kv_minmax_two by = chosen_by(c, width, g, of, block);
        byte |= code(c, by.a, by.b, row(m, x)) << shift;
      }
    }
    if (codes) codes[j] = (uint8_t)byte;
    return fits;
  }

  /* Codes rows into a block; by all threads of the block together, with a
   * barrier at the end. False, for all: a scale or minimum does not fit fp16.
   */
  template <class Rows>
  KV_DEVICE bool encode(const void *settings, int members, int width,
                        const Rows &row, const kv_gpu_block &block) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    int rows = CHANNEL ? members : 1;
    return kv_gpu_in_passes(ranges(c, width), rows * plane(c, width),
                            (uint8_t *)block.codes, [&](int j, uint8_t *codes) {
                              return set(c, members, width, j, row,
                                         block.metadata, codes);
                            });
  }
};

#endif
