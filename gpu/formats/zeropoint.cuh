/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "zeropoint" on the device: runs of a row's elements share a scale
 * and a zero point. Arithmetic: ref/formats/zeropoint.h. Kernels call it
 * through gpu/formats/format.cuh, which says what ROWS, range, size, decode and
 * encode are for; the others are their parts, any one thread's. A block is one
 * row: its metadata are the scales, then the zero points, in fp16. Cost of
 * coding: O(width / KV_BLOCK) but for the ends of a run, which one thread looks
 * for.
 */
#ifndef KV_GPU_FORMATS_ZEROPOINT_CUH
#define KV_GPU_FORMATS_ZEROPOINT_CUH

#include "gpu/block/half.h"
#include "gpu/formats/passes.cuh"
#include "ref/formats/zeropoint.h"

struct kv_gpu_format_zeropoint {
  static constexpr bool ROWS = true;

  /* Run g of n: its scale and what code 0 stands for; block: its metadata. */
  KV_DEVICE kv_gpu_range range(const kv_minmax &c, int n, int g,
                               const void *block) {
    const uint16_t *from = (const uint16_t *)block + g;
    kv_zeropoint z = {kv_half(from[0]), kv_half(from[n])};
    (void)c;
    return {z.scale, kv_zeropoint_least(&z)};
  }

  /* Runs of a row. */
  KV_DEVICE int runs(const kv_minmax &c, int width) {
    return (width + c.group - 1) / c.group;
  }

  /* Bytes of its codes: element x is in byte x mod plane, x div plane codes
   * above its low bits. */
  KV_DEVICE int plane(const kv_minmax &c, int width) {
    return (width * c.bits + 7) / 8;
  }

  /* Bytes of a block; members is 1. */
  KV_DEVICE kv_gpu_coded_size size(const void *settings, int members,
                                   int width) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    (void)members;
    return kv_gpu_coded_size{(int64_t)plane(c, width),
                             (int64_t)runs(c, width) * 4};
  }

  /* Scale and zero point of run g; block: its metadata. */
  KV_DEVICE kv_zeropoint point_at(const kv_minmax &c, int width, int g,
                                  const char *block) {
    const uint16_t *scale = (const uint16_t *)block + g;
    return {kv_from_finite_f16(scale[0]),
            kv_from_finite_f16(scale[runs(c, width)])};
  }

  /* Element x of the row; member is 0. */
  KV_DEVICE float decode(const void *settings, int width,
                         const kv_gpu_block &block, int member, int x) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    int bytes = plane(c, width), p = x / bytes;
    const uint8_t *codes = (const uint8_t *)block.codes;
    uint32_t code = codes[x - p * bytes] >> p * c.bits & ((1u << c.bits) - 1);
    kv_zeropoint z = point_at(c, width, x / c.group, block.metadata);
    (void)member;
    return kv_fma((float)code, z.scale, kv_zeropoint_least(&z));
  }

  /* Writes scale and zero point of run g, from its least and largest number;
   * false: they do not fit fp16. */
  KV_DEVICE bool set_point(const kv_minmax &c, int width, int g, float lo,
                           float hi, char *block) {
    kv_zeropoint z = kv_zeropoint_of(&c, lo, hi);
    uint16_t *scale = (uint16_t *)block + g;
    scale[0] = kv_to_f16(z.scale);
    scale[runs(c, width)] = kv_to_f16(z.zero);
    return kv_zeropoint_fits(lo, hi, &z);
  }

  /* Where codes is NULL, writes scale and zero point j, and returns as
   * set_point; or else writes byte j of the codes, which has a code of every
   * plane. One function, as reading a row is long. */
  template <class Rows>
  KV_DEVICE bool set(const kv_minmax &c, int width, int j, const Rows &row,
                     char *block, uint8_t *codes) {
    int step = codes ? plane(c, width) : 1, shift = 0;
    int x = codes ? j : j * c.group, end = codes ? width : x + c.group;
    uint32_t byte = 0;
    float lo = 0, hi = 0;
    bool first = true;
    if (end > width) end = width;
    KV_ROLLED
    for (; x < end; x += step, shift += c.bits) {
      float v = row(0, x);
      if (codes) {
        kv_zeropoint z = point_at(c, width, x / c.group, block);
        byte |= kv_zeropoint_code(&c, &z, v) << shift;
        continue;
      }
      lo = first ? v : kv_min(lo, v);
      hi = first ? v : kv_max(hi, v);
      first = false;
    }
    if (!codes) return set_point(c, width, j, lo, hi, block);
    codes[j] = (uint8_t)byte;
    return true;
  }

  /* Codes a row into a block; by all threads of the block together, with a
   * barrier at the end. False, for all: a scale or zero point does not fit
   * fp16. */
  template <class Rows>
  KV_DEVICE bool encode(const void *settings, int members, int width,
                        const Rows &row, const kv_gpu_block &block) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    (void)members;
    return kv_gpu_in_passes(runs(c, width), plane(c, width),
                            (uint8_t *)block.codes, [&](int j, uint8_t *codes) {
                              return set(c, width, j, row, block.metadata,
                                         codes);
                            });
  }
};

#endif
