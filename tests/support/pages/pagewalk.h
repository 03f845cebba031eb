/* SPDX-License-Identifier: Apache-2.0
 *
 * Random requests for a page manager (jobs of ref/pages/plan.h): they arrive,
 * are compressed, decode and end, some in each call. One refused on arrival
 * does not exist; one refused later ends with its next job. The caller chooses
 * the manager that answers.
 *
 *   begin; then draw, let a manager answer, learn; again and again
 */
#ifndef KV_TESTS_SUPPORT_PAGEWALK_H
#define KV_TESTS_SUPPORT_PAGEWALK_H

#include "ref/pages/plan.h"

/* Requests at once; heads of one, and tokens that it sees, at most. */
enum { PAGEWALK_REQUESTS = 6, PAGEWALK_HEADS = 260, PAGEWALK_MOST = 40 };

typedef struct pagewalk {
  uint64_t seed;
  int heads; /* of a request, at most PAGEWALK_HEADS */
  bool low;  /* there is a low tier */
  kv_pages_phase last[PAGEWALK_REQUESTS]; /* phase of a request's last job;
                                             KV_PAGES_END: none */
  int32_t seen[PAGEWALK_REQUESTS];        /* tokens, at most PAGEWALK_MOST */
  /* Tokens that a head keeps, by tier: now, and after the current jobs. */
  kv_pages_count count[PAGEWALK_REQUESTS][PAGEWALK_HEADS],
      next[PAGEWALK_REQUESTS][PAGEWALK_HEADS];
} pagewalk;

/* Begins without requests. */
void pagewalk_begin(pagewalk *w, uint64_t seed, int heads, bool low);

/* Draws the jobs of one call; they point to w->next. Returns how many. */
int pagewalk_draw(pagewalk *w, kv_pages_job job[PAGEWALK_REQUESTS]);

/* Takes the answers, which are in the jobs. */
void pagewalk_learn(pagewalk *w, int n, const kv_pages_job *job);

#endif
