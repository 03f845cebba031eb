/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of codes on the device, as ref/formats/minmax.h defines them, for the
 * formats channel and token; their arithmetic is ref/formats/rules.h. Kernels
 * call kv_gpu_minmax through gpu/formats/format.cuh, which says what size,
 * decode and encode are for; the others are their parts, called by any one
 * thread. CHANNEL selects what shares a scale: element x of all rows of a
 * block, or else runs of `group` elements of its only row.
 *
 * Minimum and maximum are chosen by key (rule 2 of ref/ground/arith.h), so they
 * do not depend on the order. Metadata is aligned to the numbers in it. Cost:
 * encode O(members * width / KV_BLOCK), plus finding the ends of a range, by
 * one thread, and two votes.
 */
#ifndef KV_GPU_FORMATS_MINMAX_CUH
#define KV_GPU_FORMATS_MINMAX_CUH

#include "gpu/block/block.cuh"
#include "gpu/block/half.h"
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

/* The 4 bytes at `at`, the first one lowest. By any one thread. */
KV_DEVICE uint32_t kv_gpu_word(const uint8_t *at) {
  if ((uintptr_t)at % 4 == 0) return *(const uint32_t *)at;
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
         (uint32_t)at[3] << 24;
}

/* What range g of n of a row of the format token stores; from: its metadata. By
 * any one thread. */
KV_DEVICE kv_range kv_range_stored(const kv_minmax &c, int n, int g,
                                   const void *from) {
  const uint16_t *half = (const uint16_t *)from + g;
  if (kv_rule_floats(c.rule)) return {((const float *)from)[g], 0};
  if (c.rule == KV_RULE_INTEGER) return {kv_half(half[0]), 0};
  return {kv_half(half[0]), kv_half(half[n])};
}

/* The least and the largest of some numbers. */
typedef struct kv_minmax_two {
  float a, b;
} kv_minmax_two;

/* Of each of `groups` blocks: calls set(g, j, NULL), which writes scale j of
 * block g, for j < scales, and then set(g, j, codes), which writes byte j of
 * its codes, for j < bytes, each by one thread; set returns false if what it
 * writes does not fit its type. block(g): where it is. By all threads together
 * with the same arguments; a barrier after each pass. For all, the first block
 * of which something did not fit, or `groups`. `set` is called at one place, so
 * that its code, which is long, exists once. */
template <class Block, class Set>
KV_DEVICE int kv_gpu_in_passes(int groups, int scales, int bytes,
                               const Block &block, const Set &set) {
  int fit = groups; /* blocks from the first one */
  KV_ROLLED
  for (int coding = 0; coding < 2; coding++) {
    int n = coding ? bytes : scales, own = groups;
    for (int at = kv_thread(); at < groups * n; at += KV_BLOCK) {
      int g = at / n, j = at - g * n;
      uint8_t *codes = coding ? (uint8_t *)block(g).codes : nullptr;
      if (!set(g, j, codes) && g < own) own = g;
    }
    int wrong = (int)kv_block_max((uint32_t)(groups - own));
    if (groups - wrong < fit) fit = groups - wrong;
  }
  return fit;
}

template <bool CHANNEL> struct kv_gpu_minmax {
  /* Bytes of a row's codes: element x is in byte x mod plane, x div plane codes
   * above its low bits. */
  KV_DEVICE int plane(const kv_minmax &c, int width) {
    return (width * c.bits + 7) / 8;
  }

  /* Does a block store a second number for each scale? A channel always does.
   */
  KV_DEVICE bool has_two(const kv_minmax &c) {
    return CHANNEL || !kv_rule_symmetric(c.rule);
  }

  /* How many scales a block begins with, all before other numbers. */
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
                             (int64_t)ranges(c, width) *
                                 (CHANNEL ? 4 : kv_range_bytes(&c))};
  }

  /* Element x of row `member` of a block. */
  KV_DEVICE float decode(const void *settings, int width,
                         const kv_gpu_block &block, int member, int x) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    int bytes = plane(c, width), n = ranges(c, width), g = range_of(c, x);
    const uint8_t *row = (const uint8_t *)block.codes;
    if (CHANNEL) row += (size_t)member * (size_t)bytes;
    kv_range r = run_at(c, n, g, block.metadata);
    int shift = 0;
    for (; x >= bytes; x -= bytes) shift += c.bits;
    uint32_t code = row[x] >> shift & ((1u << c.bits) - 1);
    return CHANNEL ? kv_fma((float)code, r.scale, r.other)
                   : kv_range_read(&c, &r, code);
  }

  /* Elements x .. x + 3. Their codes are in neighbouring bytes, of the same
   * plane, unless planes do not end where a word does: false. */
  KV_DEVICE bool decode_four(const void *settings, int width,
                             const kv_gpu_block &block, int member, int x,
                             float *to) {
    const kv_minmax c = *(const kv_minmax *)settings;
    int bytes = plane(c, width), n = ranges(c, width), at = x, shift = 0;
    if (bytes % 4 || (!CHANNEL && c.group % 4)) return false;
    for (; at >= bytes; at -= bytes) shift += c.bits;
    if (CHANNEL) at += member * bytes;
    uint32_t mask = (1u << c.bits) - 1;
    uint32_t word = kv_gpu_word((const uint8_t *)block.codes + at) >> shift;
    kv_range r = run_at(c, n, range_of(c, x), block.metadata);
    KV_ROLLED
    for (int e = 0; e < 4; e++, word >>= 8) {
      if (CHANNEL) r = run_at(c, n, x + e, block.metadata);
      kv_gpu_push(to, CHANNEL ? kv_fma((float)(word & mask), r.scale, r.other)
                              : kv_range_read(&c, &r, word & mask));
    }
    return true;
  }

  /* What range g of n stores; block: its metadata. */
  KV_DEVICE kv_range run_at(const kv_minmax &c, int n, int g,
                            const char *block) {
    if (!CHANNEL) return kv_range_stored(c, n, g, block);
    const uint16_t *from = (const uint16_t *)block + g;
    return {kv_from_finite_f16(from[0]), kv_from_finite_f16(from[n])};
  }

  /* Writes what range g of n stores, from the least and the largest number;
   * false: it does not fit its type. */
  KV_DEVICE bool set_range(const kv_minmax &c, float min, float max, int g,
                           int n, char *block) {
    kv_range r =
        CHANNEL ? kv_minmax_run(&c, min, max) : kv_range_of(&c, min, max);
    if (!CHANNEL && kv_rule_floats(c.rule)) {
      ((float *)block)[g] = r.scale;
    } else {
      uint16_t *to = (uint16_t *)block + g;
      to[0] = kv_to_f16(r.scale);
      if (has_two(c)) to[n] = kv_to_f16(r.other);
    }
    return kv_range_fits(&c, min, max, &r);
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

  /* The range by which codes of range g are chosen: as the block stores it or,
   * with KV_RULE_UNROUNDED, before rounding, from the least and the largest
   * number `of`. */
  KV_DEVICE kv_range chosen_by(const kv_minmax &c, int width, int g,
                               kv_minmax_two of, const char *block) {
    kv_range r = run_at(c, ranges(c, width), g, block);
    if (!again(c) || !(r.scale > 0)) return r;
    return kv_minmax_unrounded(&c, of.a, of.b);
  }

  /* True if the least and the largest number are found again when codes are
   * chosen, because a block does not store them. */
  KV_DEVICE bool again(const kv_minmax &c) {
    return !CHANNEL && c.rule == KV_RULE_UNROUNDED;
  }

  /* Code of x by that. */
  KV_DEVICE uint32_t code(const kv_minmax &c, const kv_range &by, float x) {
    return CHANNEL ? kv_minmax_choose(&c, &by, x) : kv_range_code(&c, &by, x);
  }

  /* If codes is NULL, writes range j and returns as set_range; else writes byte
   * j of the codes, which has a code of every plane. One function, as `ends` is
   * long. */
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
        kv_range by = chosen_by(c, width, g, of, block);
        byte |= code(c, by, row(m, x)) << shift;
      }
    }
    if (codes) codes[j] = (uint8_t)byte;
    return fits;
  }

  template <class Rows, class Block>
  KV_DEVICE int encode(const void *settings, int groups, int members, int width,
                       const Rows &row, const Block &block) {
    const kv_minmax &c = *(const kv_minmax *)settings;
    int rows = CHANNEL ? members : 1;
    return kv_gpu_in_passes(
        groups, ranges(c, width), rows * plane(c, width), block,
        [&](int g, int j, uint8_t *codes) {
          auto own = [&](int m, int x) { return row(g, m, x); };
          return set(c, members, width, j, own, block(g).metadata, codes);
        });
  }
};

#endif
