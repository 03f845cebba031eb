/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "delta" on the device: ref/formats/delta.h. A block begins with
 * the fp32 row that it stands for; who makes it is a verb of the layer.
 */
#ifndef KV_GPU_DELTA_CUH
#define KV_GPU_DELTA_CUH

#include "ref/formats/delta.h"

struct kv_gpu_format_delta {
  static constexpr bool ROWS = false;

  KV_DEVICE kv_gpu_coded_size size(const void *, int, int) {
    return {0, 0};
  }

  KV_DEVICE float decode(const void *, int, const kv_gpu_block &block,
                                int, int x) {
    return ((const float *)block.codes)[x];
  }

  template <class Rows>
  KV_DEVICE bool encode(const void *, int, int, const Rows &,
                               const kv_gpu_block &) {
    return false;
  }

  KV_DEVICE kv_gpu_range range(const kv_minmax &, int, int,
                                      const void *) {
    return {0, 0};
  }
};

#endif
