/* SPDX-License-Identifier: Apache-2.0
 *
 * A spill: slices of equal size that are filled and read one after the other,
 * and together may be more than memory should hold. Small ones are memory.
 * More than KV_SPILL_MEMORY bytes are a file without a name, in the folder
 * TMPDIR or /var/tmp, whose room on the disk is taken at open; a slice of it
 * that is put away costs no memory of the process until it is touched again.
 *
 * Slices are zeros at first. Different threads may use different slices. Used
 * by fidelity (sim/replay/measure/fidelity_part.h), a slice a layer.
 */
#ifndef KV_SIM_SPILL_H
#define KV_SIM_SPILL_H

#include "ref/ground/err.h"

enum { KV_SPILL_MEMORY = 32 << 20 }; /* bytes in all, at most, in memory */

typedef struct kv_spill {
  char *at;             /* slice 0 */
  size_t stride, bytes; /* from slice to slice; in all */
  bool file;            /* mapped, else memory */
} kv_spill;

/* `slices` slices of `bytes` bytes each. KV_RESOURCE: memory, or the folder has
 * no room; *s is then zeroed. */
kv_rc kv_spill_open(int slices, size_t bytes, kv_spill *s, kv_err *e);
void kv_spill_close(kv_spill *s); /* accepts a zeroed one */

/* Slice i, 0 <= i < slices, to read and to write. */
void *kv_spill_slice(const kv_spill *s, int i);

/* Says that slice i is not needed for a while. What it holds stays, and
 * kv_spill_slice gives it again. */
void kv_spill_put_away(const kv_spill *s, int i);

#endif
