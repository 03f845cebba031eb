/* SPDX-License-Identifier: Apache-2.0
 *
 * Large pages. Memory that every step reads again is read faster on pages of
 * 2 MiB than of 4 KiB: the processor looks up fewer of them, and what it
 * fetches ahead ends at each. All but kv_zalloc_large are hints: where the
 * system has no such pages, nothing happens.
 */
#ifndef KV_REF_LARGE_H
#define KV_REF_LARGE_H

#include <stddef.h>

enum { KV_LARGE_PAGE = 2 << 20 }; /* bytes */

/* kv_zalloc (ref/ground/err.h) for what will lie on large pages: a block of at
 * least two large pages begins at a multiple of their size. NULL: no memory.
 * Freed with free(). */
void *kv_zalloc_large(size_t count, size_t size);

/* For a block that will be full, before it is written: the first byte that is
 * written in each large page takes all of it from the system. */
void kv_large_at_once(void *block, size_t bytes);

/* For a block that may stay nearly empty, before it is written: it takes small
 * pages, and large ones only by the two calls below. Without this call some
 * systems give a large page for the first byte. */
void kv_large_once_full(void *block, size_t bytes);

/* Call it when the bytes written of such a block, from its beginning, have
 * grown from `from` to `to`, by at most a large page: if that filled a large
 * page, its small ones are replaced by it. They are copied there, so that no
 * memory is taken that was not in use. */
void kv_large_filled(void *block, size_t from, size_t to);

/* The same of `bytes` bytes that have all been written: every large page that
 * lies within them. */
void kv_large_written(void *from, size_t bytes);

#endif
