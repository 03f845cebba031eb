/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager of ref/pages/pages.h as one writes it at first: a queue of
 * free pages, two lists of ids for each head, one page at a time, request by
 * request. It answers the same calls in the same way, down to every id, and
 * shares no code with what it is compared with.
 */
#ifndef KV_TESTS_SUPPORT_PAGELIST_H
#define KV_TESTS_SUPPORT_PAGELIST_H

#include "ref/pages/pages.h"

typedef struct pagelist pagelist;

pagelist *pagelist_open(const kv_pages_shape *shape); /* NULL: no memory */
void pagelist_close(pagelist *l);
int pagelist_compact(pagelist *l, int n, kv_pages_job *job);

/* A request holds the same pages in both, tier by tier, in the same order. */
bool pagelist_same(const pagelist *l, const kv_pages *p, int request);
/* The same ids are free, in the same order. */
bool pagelist_same_free(const pagelist *l, const kv_pages *p);

#endif
