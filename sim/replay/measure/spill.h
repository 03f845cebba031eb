/* SPDX-License-Identifier: Apache-2.0
 *
 * A spill: equal slices of memory, filled and read one after the other, that
 * together may exceed what memory should hold. Up to KV_SPILL_MEMORY bytes are
 * in memory. More are in a file without a name, in the folder TMPDIR or
 * /var/tmp; open reserves its space on the disk. A slice of the file that is
 * put away uses no memory of the process until it is touched again.
 *
 * Slices are zeros at first. Different threads may use different slices. Used
 * by fidelity (sim/replay/measure/fidelity_part.h), a slice a layer.
 */
#ifndef KV_SIM_SPILL_H
#define KV_SIM_SPILL_H

#include "ref/ground/err.h"

enum { KV_SPILL_MEMORY = 32 << 20 }; /* most bytes of a spill in memory */

typedef struct kv_spill {
  char *at;             /* slice 0 */
  size_t stride, bytes; /* from slice to slice; in all */
  bool file;            /* mapped, else memory */
} kv_spill;

/* Opens `slices` slices of `bytes` bytes each. KV_RESOURCE: memory, or the disk
 * of the folder is full; *s is then zeroed. */
kv_rc kv_spill_open(int slices, size_t bytes, kv_spill *s, kv_err *e);
void kv_spill_close(kv_spill *s); /* accepts a zeroed one */

/* Slice i, 0 <= i < slices, for reading and writing. */
void *kv_spill_slice(const kv_spill *s, int i);

/* Announces that slice i is not needed for a while. It keeps its contents, and
 * kv_spill_slice returns it again. */
void kv_spill_put_away(const kv_spill *s, int i);

#endif
