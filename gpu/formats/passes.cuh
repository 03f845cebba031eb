/* SPDX-License-Identifier: Apache-2.0
 *
 * How a block of codes is written on the device, of any format: first its
 * scales (and minima or zero points), then its codes, which are chosen by the
 * scales that stand there.
 */
#ifndef KV_GPU_FORMATS_PASSES_CUH
#define KV_GPU_FORMATS_PASSES_CUH

#include "gpu/block/block.cuh"

/* set(j, NULL) writes scale j of `scales`, and set(j, codes) byte j of `bytes`;
 * false: it does not fit its type. All threads; a barrier after each pass.
 * False, for all threads, where any did not fit. Calling `set` at one place
 * keeps its code, in which reading a row is long, there once. */
template <class Set>
KV_DEVICE bool kv_gpu_in_passes(int scales, int bytes, uint8_t *codes,
                                const Set &set) {
  bool fits = true;
  KV_ROLLED
  for (int coding = 0; coding < 2; coding++) {
    int n = coding ? bytes : scales;
    bool wrong = false;
    for (int j = kv_thread(); j < n; j += KV_BLOCK)
      wrong |= !set(j, coding ? codes : nullptr);
    fits &= !kv_block_any(wrong);
  }
  return fits;
}

#endif
