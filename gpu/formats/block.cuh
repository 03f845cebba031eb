/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "block" on the device. Its arithmetic and bytes are those of
 * ref/formats/block.h, which both backends share. Kernels call it through
 * gpu/formats/format.cuh, which lists its functions. A thread codes a block of
 * at most KV_BLOCK_MOST elements, so encode costs O(width / KV_BLOCK) of these
 * and one vote.
 */
#ifndef KV_GPU_FORMATS_BLOCK_CUH
#define KV_GPU_FORMATS_BLOCK_CUH

#include "gpu/block/block.cuh"
#include "ref/formats/block.h"

struct kv_gpu_format_block {
  KV_DEVICE kv_gpu_coded_size size(const void *settings, int, int width) {
    const kv_blocked &c = *(const kv_blocked *)settings;
    return {kv_block_codes(&c, width), kv_block_metadata(&c, width)};
  }

  KV_DEVICE float decode(const void *settings, int width,
                         const kv_gpu_block &block, int, int x) {
    const kv_blocked &c = *(const kv_blocked *)settings;
    return kv_block_decode(&c, width, x, (const uint8_t *)block.metadata,
                           (const uint8_t *)block.codes);
  }

  KV_DEVICE bool decode_four(const void *settings, int width,
                             const kv_gpu_block &block, int, int x, float *to) {
    const kv_blocked c = *(const kv_blocked *)settings;
    const uint8_t *codes = (const uint8_t *)block.codes;
    int g = x >> c.log, first = g << c.log, size = kv_block_size(&c);
    int n = width - first < size ? width - first : size;
    codes += g * kv_block_bytes(&c, size);
    kv_range r = kv_block_range(&c, width, g, (const uint8_t *)block.metadata);
    KV_ROLLED
    for (int e = 0; e < 4; e++)
      kv_gpu_push(to, kv_block_read(
                          &c, &r, kv_block_code(&c, n, x + e - first, codes)));
    return true;
  }

  template <class Rows, class Block>
  KV_DEVICE int encode(const void *settings, int groups, int, int width,
                       const Rows &row, const Block &block) {
    const kv_blocked &c = *(const kv_blocked *)settings;
    int size = kv_block_size(&c), blocks = kv_block_count(&c, width);
    int fit = groups;
    float own[KV_BLOCK_MOST];
    for (int at = kv_thread(); at < groups * blocks; at += KV_BLOCK) {
      int j = at / blocks, g = at - j * blocks, first = g << c.log;
      int n = width - first < size ? width - first : size;
      kv_gpu_block to = block(j);
      for (int i = 0; i < n; i++) own[i] = row(j, 0, first + i);
      if (!kv_block_encode(&c, width, g, n, own, (uint8_t *)to.metadata,
                           (uint8_t *)to.codes) &&
          j < fit)
        fit = j;
    }
    return groups - (int)kv_block_max((uint32_t)(groups - fit));
  }
};

#endif
