/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that share one pool, with all their lanes and layers: a pool of
 * unified pages or, with the layouts slots and pages, of bytes. Each request
 * was replayed alone, and what its lanes held was recorded block by block
 * (kv_layout_asked.record). Pages decide nothing, so a method does the same
 * with and without neighbours. Here one page manager (ref/pages) serves all
 * requests, a step at a time:
 *
 *   a step     finished requests return their pages, and a block of a prompt
 *              reserves its own. Then, in one compaction of all heads of all
 *              layers of all requests, blocks of prompts are compressed and the
 *              other requests decode a token
 *   a request  takes a step for each block of its prompt and each later token,
 *              from the step at which it is admitted
 *
 * Requests take their turn in the order of arrival. One that needs more pages
 * than are free gets none. What follows depends on `wait`:
 *
 *   leave  it is refused: it returns its pages and ends. If several find too
 *          few pages, the last one leaves, and the others try again
 *   wait   waiting requests are admitted in the order of arrival, and only
 *          after the running ones had their step. If a running one finds too
 *          few pages, the last of all running ones returns its pages and
 * becomes the first to wait. It returns with one block of all the tokens that
 *          it had seen and continues from there, as an engine that recomputes
 *          them does. Nobody is admitted in a step in which a request was put
 *          back. A request is refused only if it finds too few pages alone
 *   stay   the same, but a request is admitted only if at each of its steps the
 *          pool has memory for it and for all admitted requests: nobody is ever
 *          put back, and fewer run at a time
 *
 * The result is the same for any number of threads. Cost: O(heads) a present
 * request and step. With stay, once more for each request alone, with O(pages)
 * for each, and at each step in which a request waits O(points) for each
 * running one. Decides nothing, prints nothing.
 */
#ifndef KV_SIM_TOGETHER_H
#define KV_SIM_TOGETHER_H

#include "sim/replay/layout/layouts.h"
#include "sim/run/look/arrivals.h"

typedef struct kv_together {
  int64_t pool; /* bytes */
  int threads;  /* >= 1 */
  kv_pool_wait wait;
  bool bytes; /* the layout has no page tables: a pool of bytes */
  /* When they arrive, and after how many decoded tokens each ends at the
   * latest; a file has one line for each request. */
  kv_arrivals arrive;
} kv_together;

/* The pool after each step in which a request needed one. */
typedef struct kv_pool_steps {
  int64_t n;
  kv_pool_step *at; /* [n], for free() */
} kv_pool_steps;

/* Runs n requests in the order in which they arrive, and fills in out[n] and
 * *steps, which the caller zeroed and frees, also after a failure. request[n]:
 * the accounts of replayed cells, each with one recorded layout. NULL: that
 * cell did not run; it arrives but needs nothing. KV_REFUSED: these cannot
 * share a pool; the sentence says why. KV_RESOURCE: memory. KV_INTERNAL: the
 * counts of pages do not agree. */
kv_rc kv_together_run(const kv_together *how, int n,
                      const kv_layouts *const *request,
                      kv_together_result *const *out, kv_pool_steps *steps,
                      kv_err *e);

/* Before anything is replayed: *pages of a pool for rows of `shape`, with
 * `layers` recorded layers; 0: such rows have no page. KV_USAGE: a request
 * needs at least one page for each of its heads, and there are fewer. */
kv_rc kv_together_pages(const kv_together *how, const kv_shape *shape,
                        int layers, int64_t *pages, kv_err *e);

/* Writes why a request was refused: the end of a sentence, in `size` bytes. */
void kv_together_say(const kv_together_result *r, size_t size, char *out);

#endif
