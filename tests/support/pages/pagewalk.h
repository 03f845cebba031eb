/* SPDX-License-Identifier: Apache-2.0
 *
 * Random requests for a page manager: they arrive, compress, decode and end,
 * some in each call. Who is refused goes home at its next job. The jobs are
 * those of ref/pages/pages.h; which manager answers them is the caller's
 * matter.
 */
#ifndef KV_TESTS_SUPPORT_PAGEWALK_H
#define KV_TESTS_SUPPORT_PAGEWALK_H

#include "ref/pages/plan.h"

enum { PAGEWALK_REQUESTS = 6, PAGEWALK_HEADS = 260, PAGEWALK_MOST = 40 };

typedef struct pagewalk {
  uint64_t seed;
  int heads; /* of a request, at most PAGEWALK_HEADS */
  bool low;  /* there is a low tier */
  kv_pages_phase last[PAGEWALK_REQUESTS]; /* END: there is no such request */
  int32_t seen[PAGEWALK_REQUESTS];        /* tokens, at most PAGEWALK_MOST */
  kv_pages_count count[PAGEWALK_REQUESTS][PAGEWALK_HEADS],
      next[PAGEWALK_REQUESTS][PAGEWALK_HEADS];
} pagewalk;

/* Nobody has arrived. */
void pagewalk_begin(pagewalk *w, uint64_t seed, int heads, bool low);

/* The jobs of one call, whose counts are w->next; returns how many. */
int pagewalk_draw(pagewalk *w, kv_pages_job job[PAGEWALK_REQUESTS]);

/* They were answered. */
void pagewalk_learn(pagewalk *w, int n, const kv_pages_job *job);

#endif
