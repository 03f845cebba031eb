/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the selections of one hook (ref/lane/select.h) and finds the one that
 * decided the result:
 *
 *   a keep by flags: the last selection that wrote those flags
 *   a keep by list: the last one that explains it, entry by entry or page by
 *   page (kv_needs_page)
 *   a view: the last one. It ranked pages if it has no more indexes than the
 *   lane has pages, else entries
 *
 * Open once. For each hook forget, add every selection that it makes, then ask
 * for the deciding one. Close. One thread. Memory: scores and a byte for each
 * index of one hook's selections, reused for the next.
 */
#ifndef KV_SIM_RANKED_H
#define KV_SIM_RANKED_H

#include "ref/lane/select.h"
#include "sim/run/grade/judge.h"

typedef struct kv_ranks {
  int n, room;
  kv_ranked *ranked; /* [room], the first n are of this hook; a selection over
                        several lanes has one for each */
  size_t width;      /* most indexes of a selection: n_tokens + 1 */
  bool shared;    /* a selection of this hook ranked several lanes together */
  bool no_memory; /* memory ran out: selections are missing */
} kv_ranks;

/* Makes *r empty; n_tokens: of the trace. Allocates nothing yet. */
void kv_ranks_open(int n_tokens, kv_ranks *r);
void kv_ranks_close(kv_ranks *r); /* accepts zeroed */
/* Forgets all selections: call it when the next hook begins. */
void kv_ranks_forget(kv_ranks *r);
/* Records a selection, copying its scores; sets r->no_memory if it cannot. */
void kv_ranks_add(kv_ranks *r, const kv_selection *s);

/* The selection that decided a keep, or a view (see above), valid until the
 * next forget; NULL: none. page: tokens of a page of the method, 1 without
 * pages; n: entries of the lane; ours: [n] those that stay. flags: the array
 * [n] that the keep was called with; NULL: it was called with a list. */
const kv_ranked *kv_ranks_of_keep(kv_ranks *r, int page, const bool *flags,
                                  int n, const bool *ours);
const kv_ranked *kv_ranks_of_view(kv_ranks *r, int page, int n);

#endif
