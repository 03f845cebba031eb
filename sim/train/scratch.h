/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of one thread while it learns: at each step asked for as a whole
 * (reserve), then taken piece by piece, and kept from one step to the next, so
 * that a step that needs no more than those before it allocates nothing. To
 * give back what was taken last, set `used` to what it was.
 */
#ifndef KV_SIM_TRAIN_SCRATCH_H
#define KV_SIM_TRAIN_SCRATCH_H

#include "ref/ground/err.h"
#include <stddef.h>

/* Zeroed: empty. */
typedef struct kv_scratch {
  char *block;
  size_t room, used; /* bytes */
} kv_scratch;

/* Makes room for so many floats or ints in at most KV_SCRATCH_PARTS pieces;
 * what was taken before is gone. KV_RESOURCE: memory. */
enum { KV_SCRATCH_PARTS = 64 };
kv_rc kv_scratch_reserve(kv_scratch *s, size_t elements, kv_err *e);
/* So many elements of 4 bytes, on a boundary of 64 bytes, with junk in them.
 * Asserts that they were reserved. */
void *kv_scratch_take(kv_scratch *s, size_t elements);
void kv_scratch_free(kv_scratch *s); /* accepts zeroed */

#endif
