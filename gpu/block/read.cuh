/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a row in memory by the threads of a block, with several loads on
 * their way: take(i, items, how many of them) for all of row[0..n), each item
 * by one thread, in no order. A row that begins at a multiple of 16 bytes is
 * read 16 bytes at a time, LOADS times before the first is used; so `take` may
 * write to items it was given, and to no others.
 */
#ifndef KV_GPU_READ_CUH
#define KV_GPU_READ_CUH

#include "gpu/block/async.h"
#include "gpu/block/block.cuh"

#include <string.h>

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

/* Stores what `take` was given, or as much: 16 bytes at once where they are a
 * piece. */
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
