/* SPDX-License-Identifier: Apache-2.0
 *
 * The selections of one hook, kept as they were shown (ref/select.h), and
 * which of them decided what came of it:
 *
 *   a keep by flags: the last selection that wrote those flags
 *   a keep by list: the last one that explains it, entry by entry or page by
 *   page (needs.page)
 *   a view: the last one; over no more indexes than the lane has pages, it
 *   ranked pages, else entries
 */
#ifndef KV_SIM_RANKED_H
#define KV_SIM_RANKED_H

#include "ref/select.h"
#include "sim/judge.h"

typedef struct kv_ranks {
  int n, room;
  kv_ranked *ranked; /* [room], the first n of this hook */
  size_t width;      /* most indexes of one */
  bool shared;       /* one of them ranked several lanes together */
  bool no_memory;
} kv_ranks;

void kv_ranks_open(int n_tokens, kv_ranks *r);
void kv_ranks_close(kv_ranks *r);
void kv_ranks_forget(kv_ranks *r); /* another hook begins */
void kv_ranks_add(kv_ranks *r, const kv_selection *s);

/* NULL: none. */
const kv_ranked *kv_ranks_of_keep(kv_ranks *r, int page, const bool *flags,
                                  int n, const bool *ours);
const kv_ranked *kv_ranks_of_view(kv_ranks *r, int page, int n);

#endif
