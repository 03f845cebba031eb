/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the selections of one hook (ref/lane/select.h) and finds the one that
 * decided the result:
 *
 *   a keep by flags: the last selection that wrote those flags
 *   a keep by list: the last one that explains it, entry by entry or page by
 *   page (kv_needs_page)
 *   a view: the last one; over no more indexes than the lane has pages, it
 *   ranked pages, else entries
 */
#ifndef KV_SIM_RANKED_H
#define KV_SIM_RANKED_H

#include "ref/lane/select.h"
#include "sim/grade/judge.h"

typedef struct kv_ranks {
  int n, room;
  kv_ranked *ranked; /* [room], the first n are of this hook */
  size_t width;      /* most indexes of a selection */
  bool shared;       /* a selection ranked several lanes together */
  bool no_memory;
} kv_ranks;

void kv_ranks_open(int n_tokens, kv_ranks *r);
void kv_ranks_close(kv_ranks *r);
void kv_ranks_forget(kv_ranks *r); /* call when another hook begins */
void kv_ranks_add(kv_ranks *r, const kv_selection *s);

/* The selection that decided a keep, or a view (see above); NULL: none. flags:
 * of the lane's n entries; a selection that wrote some of them knows which. */
const kv_ranked *kv_ranks_of_keep(kv_ranks *r, int page, const bool *flags,
                                  int n, const bool *ours);
const kv_ranked *kv_ranks_of_view(kv_ranks *r, int page, int n);

#endif
