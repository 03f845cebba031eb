/* SPDX-License-Identifier: Apache-2.0
 *
 * Large pages. Memory that every step reads again is read faster on pages of 2
 * MiB than of 4 KiB: the processor looks up fewer of them, and its prefetching
 * stops at page ends. All but kv_zalloc_large are hints: on a system without
 * such pages nothing happens.
 */
#ifndef KV_REF_LARGE_H
#define KV_REF_LARGE_H

#include <stddef.h>

enum { KV_LARGE_PAGE = 2 << 20 }; /* bytes */

/* kv_zalloc (ref/ground/err.h) for memory on large pages: a block of at least
 * two large pages begins at a multiple of their size. NULL: no memory. Free it
 * with free(). */
void *kv_zalloc_large(size_t count, size_t size);

/* For a block that will be full; call it before writing. The first byte written
 * in a large page then allocates the whole page. */
void kv_large_at_once(void *block, size_t bytes);

/* For a block that may stay nearly empty; call it before writing. It uses small
 * pages, and large ones only through the two calls below. Without this call
 * some systems allocate a large page for the first byte. */
void kv_large_once_full(void *block, size_t bytes);

/* Call it when the written bytes of such a block, from its beginning, have
 * grown from `from` to `to`, by at most a large page. If that filled a large
 * page, it replaces its small ones, which are copied: no memory is allocated
 * that was not in use. */
void kv_large_filled(void *block, size_t from, size_t to);

/* The same for `bytes` written bytes: all large pages within them. */
void kv_large_written(void *from, size_t bytes);

#endif
