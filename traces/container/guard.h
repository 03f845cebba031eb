/* SPDX-License-Identifier: Apache-2.0
 *
 * Mapped files that shrink. Reading a mapped page whose file has become
 * shorter raises SIGBUS, which would kill the program and what it has found
 * so far. A guarded range turns the signal into a flag: the handler puts
 * zeros under the page and everything behind it, sets the flag and lets the
 * reader go on; who uses the data asks for the flag before believing any
 * result. A SIGBUS elsewhere goes to the handler that was there before.
 *
 * The handler is there from the first range to the last. Threads may read
 * guarded ranges freely; a range must not be removed while it is read.
 */
#ifndef KV_TRACES_GUARD_H
#define KV_TRACES_GUARD_H

#include <stdatomic.h>
#include <stddef.h>

#include "ref/ground/err.h"

/* Guards the mapping [start, start + bytes); *damaged becomes 1. */
kv_rc kv_guard_add(void *start, size_t bytes, atomic_int *damaged, kv_err *e);

/* Forgets the range that begins at start; NULL and unknown are allowed. */
void kv_guard_remove(const void *start);

#endif
