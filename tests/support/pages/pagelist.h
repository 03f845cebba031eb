/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager of ref/pages/pages.h once more, in its simplest form, for
 * tests to compare it with: a queue of free pages, two lists of ids for each
 * head, one page at a time, request by request. It gives the same answers, down
 * to every id, and shares no code with the other.
 */
#ifndef KV_TESTS_SUPPORT_PAGELIST_H
#define KV_TESTS_SUPPORT_PAGELIST_H

#include "ref/pages/pages.h"

typedef struct pagelist pagelist;

/* NULL: no memory. */
pagelist *pagelist_open(const kv_pages_shape *shape);
void pagelist_close(pagelist *l);
/* Answers job[n] as kv_pages_compact does, and returns the same. */
int pagelist_compact(pagelist *l, int n, kv_pages_job *job);

/* Whether a request holds the same pages in both, tier by tier, in the same
 * order. */
bool pagelist_same(const pagelist *l, const kv_pages *p, int request);
/* Whether the same ids are free in both, in the same order. */
bool pagelist_same_free(const pagelist *l, const kv_pages *p);

#endif
