/* SPDX-License-Identifier: Apache-2.0
 *
 * A store of regular indices on a device, as Hard-KV's paper has them (its
 * section 3.3; sim/layout/README.md has the tasks): K and V of a lane's tokens
 * lie one behind another in room that all lanes have alike, and a mask of one
 * bit a place, little-endian, says which of them count. Sparse: places stay
 * where tokens entered, bits are cleared. Max: what is left is gathered into
 * the store's other half, lane by lane, and that half is the store from then
 * on. Which half it is, and how many places a lane has taken, kernels read from
 * device memory, so a recorded sequence stays right whatever is masked or
 * rewritten between two of its replays. Every pointer is a device pointer.
 *
 * Such a store may hold the rows of a replay's lanes (gpu/host/indexed.h): then
 * an entry's kv_cell_ref names its place, the pages of the lanes' pools are
 * pieces of the half in use, and masks follow the lanes.
 *
 * Invariants, of the half in use: bits of places not taken are 0; a bit that is
 * 0 when lanes are rewritten is never set again. Other bits may be cleared by
 * anybody between kernels.
 */
#ifndef KV_GPU_REGULAR_H
#define KV_GPU_REGULAR_H

#include "gpu/shared/lane.h"

enum { KV_GPU_STORES = 2 };

typedef enum kv_gpu_regular_act {
  KV_GPU_REGULAR_ENTER,   /* the clock's tokens enter every lane */
  KV_GPU_REGULAR_ATTEND,  /* as attend of gpu/shared/device.h */
  KV_GPU_REGULAR_REWRITE, /* the other half becomes what masks leave */
  /* Where the store holds the lanes of a layer: */
  KV_GPU_REGULAR_READ,  /* bits are those of entries that views hold */
  KV_GPU_REGULAR_HELD,  /* .. of all entries: what a rewrite is to leave */
  KV_GPU_REGULAR_FOLLOW /* entries name their places after a rewrite */
} kv_gpu_regular_act;

typedef struct kv_gpu_regular_half {
  char *k, *v;    /* [lanes][room][d], [d_v] of the trace's type */
  uint32_t *mask; /* [lanes][words] */
  int32_t *taken; /* [lanes] places */
} kv_gpu_regular_half;

typedef struct kv_gpu_regular {
  int32_t room, words; /* places of a lane; words of its mask */
  int32_t *which;      /* the half in use: 0 or 1 */
  int32_t entries;     /* l.place names the entries of views; 0: the j-th bit
                          is entry j, where there are entries */
  kv_gpu_regular_half half[KV_GPU_STORES];
} kv_gpu_regular;

#endif
