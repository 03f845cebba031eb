/* SPDX-License-Identifier: Apache-2.0
 *
 * A spill: slices of equal size that are filled and read one after the other,
 * and together may be more than memory should hold. Small ones are memory.
 * From KV_SPILL_MEMORY bytes on they are a file without a name, in the folder
 * TMPDIR or /var/tmp, whose room on the disk is taken at open; a slice that is
 * put away costs no memory of the process until it is touched again.
 *
 * Slices are zeros at first. Different threads may use different slices.
 */
#ifndef KV_SIM_SPILL_H
#define KV_SIM_SPILL_H

#include "ref/ground/err.h"

enum { KV_SPILL_MEMORY = 32 << 20 };

typedef struct kv_spill {
  char *at;
  size_t stride, bytes; /* from slice to slice; in all */
  bool file;
} kv_spill;

/* slices of `bytes` bytes each. The folder's room may not suffice:
 * KV_RESOURCE, and *s is zeroed. */
kv_rc kv_spill_open(int slices, size_t bytes, kv_spill *s, kv_err *e);
void kv_spill_close(kv_spill *s); /* accepts a zeroed one */

void *kv_spill_slice(const kv_spill *s, int i);

/* Slice i is not needed for a while. What it holds stays. */
void kv_spill_put_away(const kv_spill *s, int i);

#endif
