/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads an array in global memory by all threads of a block, each with several
 * loads in flight: for selections and sums over all entries of a lane.
 */
#ifndef KV_GPU_READ_CUH
#define KV_GPU_READ_CUH

#include "gpu/block/async.h"
#include "gpu/block/block.cuh"

#include <string.h>

/* Calls take(i, items, each) for all of row[0..n): items are copies of row[i ..
 * i + each), and each item is passed once, in one thread, in any order. All
 * threads call it with the same row and n; there is no barrier. If row begins
 * at a multiple of 16 bytes, a thread loads 16 bytes at a time and LOADS times
 * before it calls take. So take may write only to the items of row that it was
 * passed. */
template <int LOADS, class Item, class Take>
static __device__ void kv_block_read(const Item *row, int n, Take take) {
  constexpr int EACH = 16 / (int)sizeof(Item), STEP = EACH * KV_BLOCK;
  int whole = (uintptr_t)row % 16 == 0 ? n / EACH * EACH : 0;
  for (int at = kv_thread() * EACH; at < whole; at += STEP * LOADS) {
    kv_piece piece[LOADS];
    KV_UNROLL
    for (int u = 0; u < LOADS; u++)
      if (at + u * STEP < whole)
        piece[u] = *(const kv_piece *)(row + at + u * STEP);
    KV_UNROLL
    for (int u = 0; u < LOADS; u++) {
      Item own[EACH];
      if (at + u * STEP >= whole) break;
      memcpy(own, &piece[u], sizeof own);
      take(at + u * STEP, own, EACH);
    }
  }
  for (int i = whole + kv_thread(); i < n; i += KV_BLOCK) {
    Item own = row[i];
    take(i, &own, 1);
  }
}

/* Writes own[0..each) to `to`, by one store if each is 4 (`to` must then be a
 * multiple of 16 bytes, as are the items passed to take). By one thread. */
KV_DEVICE void kv_block_write(float *to, const float *own, int each) {
  if (each == 4) {
    kv_piece piece;
    memcpy(&piece, own, sizeof piece);
    *(kv_piece *)to = piece;
    return;
  }
  for (int j = 0; j < each; j++) to[j] = own[j];
}

#endif
