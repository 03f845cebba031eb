/* SPDX-License-Identifier: Apache-2.0
 *
 * How a format's `encode` writes a block on the device: first its scales (and
 * minima or zero points), then its codes, which are chosen by the scales that
 * stand there.
 */
#ifndef KV_GPU_FORMATS_PASSES_CUH
#define KV_GPU_FORMATS_PASSES_CUH

#include "gpu/block/block.cuh"

/* Calls set(j, NULL), which writes scale j, for j < scales, and then set(j,
 * codes), which writes byte j of the codes, for j < bytes, each by one thread;
 * set returns false where what it writes does not fit its type. By all threads
 * of the block together with the same arguments; a barrier after each pass.
 * False, for all, where any did not fit. `set` is called at one place, so that
 * its code, in which reading a row is long, is there once. */
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
