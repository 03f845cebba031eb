/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets a program survive a file that becomes shorter while it is mapped.
 * Reading such a page raises SIGBUS, which would kill the program and lose its
 * results so far. In a guarded range that page and all after it read as zeros
 * instead, and a flag is set: check the flag before you trust a result. A
 * SIGBUS elsewhere goes to the handler that was installed before.
 *
 * The reader of safetensors uses one range a file. The handler is installed
 * with the first range and removed with the last, unless another was installed
 * over it. Both functions may be called from any thread; do not remove a range
 * while another thread reads it.
 */
#ifndef KV_TRACES_GUARD_H
#define KV_TRACES_GUARD_H

#include <stdatomic.h>
#include <stddef.h>

#include "ref/ground/err.h"

/* Guards the mapping of `bytes` bytes at start, which mmap returned. *damaged
 * becomes 1 when a page of it is lost; it must live until kv_guard_remove.
 * KV_RESOURCE: 1024 ranges are guarded, or no handler can be installed. */
kv_rc kv_guard_add(void *start, size_t bytes, atomic_int *damaged, kv_err *e);

/* Ends the guard of the range that begins at start; call it before munmap. NULL
 * and addresses that are not guarded are ignored. */
void kv_guard_remove(const void *start);

#endif
