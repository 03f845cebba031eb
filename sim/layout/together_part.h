/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/layout/together*.c: requests that share a pool of pages, while
 * they are run step by step. Called by one thread, which has the page manager
 * and the walk over tables use how->threads.
 */
#ifndef KV_SIM_TOGETHER_PART_H
#define KV_SIM_TOGETHER_PART_H

#include "sim/layout/layouts_part.h"
#include "sim/layout/together.h"

/* One request: a cell that was replayed before, and what it held. */
typedef struct kv_request {
  const kv_layouts *of; /* its layouts; NULL: its cell did not run */
  const kv_layout_account *account; /* of the layout whose pages are shared */
  kv_together_result *out;          /* what the pool did to it */
  uint8_t *tier; /* [layers][KV_TIERS] which of the pool's two precisions each
                    kv_layout_tier of a layer is stored in */
  kv_pages_count *count; /* [heads] tokens by precision of each head, as they
                            are passed to kv_pages_* at the step in hand */
  int64_t bytes;         /* of a pool of bytes: that it holds */
  bool in;               /* it has a place in the pool */
  bool over;             /* finished or refused, or its cell did not run */
  int block, points;     /* the one that it takes next; how many it has */
  int enters;            /* tokens that enter as a prompt's with the block in
                            hand; 0: it decodes one */
  int64_t served;        /* the last step in which it took one; -1: none */
  int64_t *need;         /* [points] of KV_POOL_STAY: most pages that it has in
                            the step of each block; one more than there are
                            where alone it would not come through that block */
  int64_t lacked;        /* pages that it asked for in vain with that block; -1:
                            it has not asked */
} kv_request;

/* The pool and its requests. */
typedef struct kv_pool {
  const kv_together *how;
  int n, lanes, layers; /* requests; lanes of a layer; recorded layers */
  int heads;            /* layers * lanes: what the page manager calls a head */
  int64_t page;         /* bytes of a page */
  kv_layout_tier tier[KV_TIERS]; /* high, then low precision */
  kv_request *request;           /* [n] */
  kv_pages_job *job;             /* [n] of one call of the manager */
  int64_t *arrives;              /* [n] the steps at which they do */
  int jobs;                      /* how many of them are used */
  kv_pages p;                    /* the manager (ref/pages); of bytes: zeroed */
  int64_t used, peak;            /* of bytes: in use; of both: most in use */
  int64_t kept;                  /* in use in the step in hand before requests
                                    that waited were let in */
  int64_t *ahead;                /* [most points of a request] of KV_POOL_STAY,
                                    scratch: pages of all at coming steps */
  int asked, ran;                /* in the step in hand: requests that asked for
                                    one, that were served */
  bool made_room;                /* one was put back in it */
  kv_pool_steps *steps;          /* of the caller */
  int64_t room;                  /* that steps->at has memory for */
  kv_pool_result result;         /* of the steps so far */
} kv_pool;

/* What a request has in a pool. */
typedef struct kv_holding {
  int64_t pages;        /* of bytes: bytes */
  int64_t payload, map; /* bytes in which tokens lie, and of its tables */
} kv_holding;

/* As kv_pages_compact, of whatever the pool is made of. */
int kv_pool_compact(kv_pool *x, int n, kv_pages_job *job);
int64_t kv_pool_used(const kv_pool *x);
int64_t kv_pool_spare(const kv_pool *x);
void kv_pool_reset(kv_pool *x); /* as after open: nobody has anything */
kv_holding kv_pool_holding(const kv_pool *x, int at);

/* Opens a pool of how->pool bytes for n requests, of which at least one is not
 * NULL: decides which precision of the pool each tier of each layer is stored
 * in, and takes the manager's memory. out: [n] results, filled while the pool
 * runs. KV_REFUSED: the requests store rows of more than two precisions, have
 * other layers, heads or rows, or could use too many pages; KV_RESOURCE:
 * memory. Close it, also after a failure. */
kv_rc kv_pool_open(const kv_together *how, int n,
                   const kv_layouts *const *request,
                   kv_together_result *const *out, kv_pool *x, kv_err *e);
void kv_pool_close(kv_pool *x); /* accepts zeroed */

#endif
