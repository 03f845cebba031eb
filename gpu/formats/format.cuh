/* SPDX-License-Identifier: Apache-2.0
 *
 * Coded rows on the device: blocks byte for byte as ref/formats makes them.
 * A format x of FORMATS in formats.mk has gpu/formats/x.cuh with
 *
 *   struct kv_gpu_format_x {
 *     // bytes of a block of so many rows
 *     KV_DEVICE kv_gpu_coded_size size(const void *settings,
 *                                             int members, int width);
 *     // element x of a member of a block; one thread's
 *     KV_DEVICE float decode(const void *settings, int width,
 *                            const kv_gpu_block &block, int member, int x);
 *     // elements x .. x + 3, all in the row, x a multiple of 4; one thread's.
 *     // false: they are not decoded together
 *     KV_DEVICE bool decode_four(const void *settings, int width,
 *                                const kv_gpu_block &block, int member, int x,
 *                                float *to);
 *     // codes `groups` groups of `members` rows, row(j, m, x) element x of row
 *     // m of group j, into block(j), which contains none of them; all threads,
 *     // and a barrier at the end. For all threads, the first group of which a
 *     // scale does not fit its type, or `groups`.
 *     template <class Rows, class Block>
 *     KV_DEVICE int encode(const void *settings, int groups, int members,
 *                          int width, const Rows &row, const Block &block);
 *   };
 *
 * `settings` is the device's copy of the struct that the reference's format
 * has, in a slab. Below are the same for a slab of any format.
 */
#ifndef KV_GPU_FORMAT_CUH
#define KV_GPU_FORMAT_CUH

#include "gpu/block/block.cuh"
#include "gpu/formats/format.h"
#include "gpu/shared/lane.h"
#include "ref/ground/arith.h"

/* Bytes of a block; metadata: all but codes, such as scales and minima. */
typedef struct kv_gpu_coded_size {
  int64_t codes, metadata;
} kv_gpu_coded_size;

/* What elements of a row share: a code means fma(code, scale, least) or, if
 * codes are floats, RN(float * scale). */
typedef struct kv_gpu_range {
  float scale, least;
} kv_gpu_range;

/* Where a block is: metadata, then codes, contiguous in a slab, or in two
 * segments of a page (gpu/shared/paged.h). */
typedef struct kv_gpu_block {
  char *metadata, *codes;
} kv_gpu_block;

/* Appends x to four numbers, of which the first goes: in a loop that is not
 * unrolled, an index would put them into local memory. By any one thread. */
KV_DEVICE void kv_gpu_push(float *four, float x) {
  four[0] = four[1];
  four[1] = four[2];
  four[2] = four[3];
  four[3] = x;
}

#include "gpu/formats/all.h"

/* Bytes of a block of `members` rows in the slab's format; if it is spread over
 * all lanes, of all its parts. By any one thread, like all but kv_gpu_encode.
 */
KV_DEVICE kv_gpu_coded_size kv_gpu_whole_block(const kv_gpu_slab &s,
                                               int members) {
  switch (s.format) {
#define KV_FORMAT(name)                                                        \
case KV_GPU_##name:                                                            \
  return kv_gpu_format_##name::size(s.settings, members, s.width);
#include "gpu/formats/list.h"
#undef KV_FORMAT
  default: /* merged rows, one a block */
    return kv_gpu_coded_size{(int64_t)s.width * (s.type == KV_F32 ? 4 : 2), 0};
  }
}

/* Where part number `part` of `parts` of n bytes begins. */
KV_DEVICE int64_t kv_gpu_part_begin(int64_t n, int part, int parts) {
  return n * part / parts;
}

/* Bytes of a block in this slab: if it is spread, of its part. */
KV_DEVICE kv_gpu_coded_size kv_gpu_block_size(const kv_gpu_slab &s,
                                              int members) {
  kv_gpu_coded_size all = kv_gpu_whole_block(s, members);
  auto own = [&](int64_t n) {
    return kv_gpu_part_begin(n, s.part + 1, s.parts) -
           kv_gpu_part_begin(n, s.part, s.parts);
  };
  if (s.parts == 0) return all;
  return {own(all.codes), own(all.metadata)};
}

/* Element x of row `member` of a block of the slab, which is coded. */
KV_DEVICE float kv_gpu_decode(const kv_gpu_slab &s, const kv_gpu_block &block,
                              int member, int x) {
  switch (s.format) {
#define KV_FORMAT(name)                                                        \
case KV_GPU_##name:                                                            \
  return kv_gpu_format_##name::decode(s.settings, s.width, block, member, x);
#include "gpu/formats/list.h"
#undef KV_FORMAT
  default:
    return 0; /* other rows are read as they are (gpu/lane/entry.cuh) */
  }
}

/* Elements x .. x + 3, all in the row; x is a multiple of 4. A word of codes
 * and what they share are read once, so this costs little more than one
 * element. False: the format cannot, and *to is not written. */
KV_DEVICE bool kv_gpu_decode_four(const kv_gpu_slab &s,
                                  const kv_gpu_block &block, int member, int x,
                                  float *to) {
  kv_one_by_one();
  switch (s.format) {
#define KV_FORMAT(name)                                                        \
case KV_GPU_##name:                                                            \
  return kv_gpu_format_##name::decode_four(s.settings, s.width, block, member, \
                                           x, to);
#include "gpu/formats/list.h"
#undef KV_FORMAT
  default:
    return false; /* other rows are read as they are (gpu/lane/entry.cuh) */
  }
}

/* Do its rows have their own scales? Then whole rows are read at once
 * (gpu/lane/keys_rows.cuh, gpu/backend/attend.cu). */
KV_DEVICE bool kv_gpu_has_rows(int format) { return format == KV_GPU_token; }

/* Range g of the n ranges of a row of such a format; c: its settings. */
KV_DEVICE kv_gpu_range kv_gpu_range_of(const kv_minmax &c, int n, int g,
                                       const void *metadata) {
  kv_range r = kv_range_stored(c, n, g, metadata);
  return {r.scale, kv_range_least(&c, &r)};
}

/* `encode` of the slab's format, whose blocks are block(j). By all threads of
 * the block together; a barrier at the end. */
template <class Rows, class Block>
KV_DEVICE int kv_gpu_encode(const kv_gpu_slab &s, int groups, int members,
                            const Rows &row, const Block &block) {
  switch (s.format) {
#define KV_FORMAT(name)                                                        \
case KV_GPU_##name:                                                            \
  return kv_gpu_format_##name::encode(s.settings, groups, members, s.width,    \
                                      row, block);
#include "gpu/formats/list.h"
#undef KV_FORMAT
  default:
    return 0; /* recode names formats, and merged rows are none */
  }
}

#endif
