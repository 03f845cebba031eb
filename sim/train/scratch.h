/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of one thread while it learns: asked for as a whole, then taken piece
 * by piece, and kept from one step to the next.
 */
#ifndef KV_SIM_TRAIN_SCRATCH_H
#define KV_SIM_TRAIN_SCRATCH_H

#include "ref/ground/err.h"
#include <stddef.h>

typedef struct kv_scratch {
  char *block;
  size_t room, used; /* bytes */
} kv_scratch;

/* Room for so many floats or ints in at most KV_SCRATCH_PARTS pieces; what was
 * taken before is gone. */
enum { KV_SCRATCH_PARTS = 64 };
kv_rc kv_scratch_reserve(kv_scratch *s, size_t elements, kv_err *e);
/* Elements of 4 bytes on a boundary of 64, never more than were reserved; what
 * is in them is junk. */
void *kv_scratch_take(kv_scratch *s, size_t elements);
void kv_scratch_free(kv_scratch *s);

#endif
