/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "absmax" on the device: runs of a row's elements share a scale.
 * Arithmetic: ref/formats/absmax.h. Kernels call it through
 * gpu/formats/format.cuh, which says what ROWS, range, size, decode and encode
 * are for; the others are their parts. A block is one row: its metadata are the
 * scales, one a run, fp16 or binary32. Cost of coding: O(width / KV_BLOCK), but
 * for the largest of a run, which one thread looks for.
 */
#ifndef KV_GPU_FORMATS_ABSMAX_CUH
#define KV_GPU_FORMATS_ABSMAX_CUH

#include "gpu/block/half.h"
#include "gpu/formats/passes.cuh"
#include "ref/formats/absmax.h"

struct kv_gpu_format_absmax {
  static constexpr bool ROWS = true;

  /* Run g of a row whose scales are `block`: its scale, and what code 0 stands
   * for. Of integers a code is then fma(code, scale, -L * scale): both products
   * are exact, so that this is (code - L) * scale to the bit. Of floats the
   * second is 0. */
  KV_DEVICE kv_gpu_range range(const kv_minmax &c, int n, int g,
                               const void *block) {
    (void)n;
    if (kv_rule_floats(c.rule)) return {((const float *)block)[g], 0};
    float scale = kv_half(((const uint16_t *)block)[g]);
    return {scale, kv_mul(-kv_absmax_top(&c), scale)};
  }

  /* Runs, and so scales, of a row. */
  KV_DEVICE int runs(const kv_minmax &c, int width) {
    return (width + c.group - 1) / c.group;
  }

  /* Bytes of a block, codes and scales; members is 1. */
  KV_DEVICE kv_gpu_coded_size size(const void *settings, int members,
                                   int width) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    (void)members;
    return kv_gpu_coded_size{(int64_t)kv_absmax_plane(&c, width),
                             (int64_t)runs(c, width) *
                                 kv_absmax_scale_size(&c)};
  }

  /* Scale g of a block; block: its metadata. */
  KV_DEVICE float scale_at(const kv_minmax &c, int g, const char *block) {
    return c.rule == KV_RULE_INTEGER
               ? kv_from_finite_f16(((const uint16_t *)block)[g])
               : ((const float *)block)[g];
  }

  /* Element x of the row, by one thread; member is 0. */
  KV_DEVICE float decode(const void *settings, int width,
                         const kv_gpu_block &block, int member, int x) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    int plane = kv_absmax_plane(&c, width), p = x / plane;
    uint32_t code = (uint8_t)block.codes[x - p * plane] >> p * c.bits &
                    ((1u << c.bits) - 1);
    (void)member;
    return kv_mul(kv_absmax_plain(&c, code),
                  scale_at(c, x / c.group, block.metadata));
  }

  /* Writes scale g, of a run whose largest magnitude is `most`; false: it does
   * not fit its type, and the row cannot be coded. */
  KV_DEVICE bool set_scale(const kv_minmax &c, int g, float most, char *block) {
    float scale = kv_absmax_scale(&c, most);
    if (c.rule == KV_RULE_INTEGER)
      ((uint16_t *)block)[g] = kv_to_f16(scale);
    else
      ((float *)block)[g] = scale;
    return kv_absmax_fits(&c, most, scale);
  }

  /* Where codes is NULL, writes scale j and returns as set_scale does; or else
   * writes byte j of the codes, which holds one code of every plane, by the
   * scales in `block`. row(0, x) is element x. One function for both, as the
   * code that reads a row is long. */
  template <class Rows>
  KV_DEVICE bool set(const kv_minmax &c, int width, int j, const Rows &row,
                     char *block, uint8_t *codes) {
    int step = codes ? kv_absmax_plane(&c, width) : 1, shift = 0;
    int x = codes ? j : j * c.group, end = codes ? width : x + c.group;
    uint32_t all = 0;
    if (end > width) end = width;
    KV_ROLLED
    for (; x < end; x += step, shift += c.bits) {
      float v = row(0, x);
      uint32_t a = kv_bits(v) & 0x7fffffffu;
      if (!codes)
        all = a > all ? a : all;
      else
        all |= kv_absmax_code(&c, scale_at(c, x / c.group, block), v) << shift;
    }
    if (!codes) return set_scale(c, j, kv_float(all), block);
    codes[j] = (uint8_t)all;
    return true;
  }

  /* Codes one row into a block that it does not lie in; members is 1. All
   * threads, and a barrier at the end. False, for all: a scale does not fit. */
  template <class Rows>
  KV_DEVICE bool encode(const void *settings, int members, int width,
                        const Rows &row, const kv_gpu_block &block) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    (void)members;
    return kv_gpu_in_passes(runs(c, width), kv_absmax_plane(&c, width),
                            (uint8_t *)block.codes, [&](int j, uint8_t *codes) {
                              return set(c, width, j, row, block.metadata,
                                         codes);
                            });
  }
};

#endif
