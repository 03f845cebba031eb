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

/* kv_zalloc (ref/ground/err.h) for what will lie on large pages: of two and
 * more, it begins with one. */
void *kv_zalloc_large(size_t count, size_t size);

/* What is written to a block from now on comes on large pages: one at the first
 * byte of each. For what will be full. */
void kv_large_at_once(void *block, size_t bytes);

/* None before one is full: for what may stay nearly empty. Without this call
 * some systems give a large page for the first byte. */
void kv_large_once_full(void *block, size_t bytes);

/* After the first `from` bytes of such a block have become `to`, `to` - `from`
 * at most a large page: one that is full now becomes one. It is copied there,
 * so that no memory is taken that was not in use. */
void kv_large_filled(void *block, size_t from, size_t to);

/* The same of bytes that have been written: all that are full. */
void kv_large_written(void *from, size_t bytes);

#endif
