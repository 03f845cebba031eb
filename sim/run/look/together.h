/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that share one pool, all their lanes and layers, of unified pages
 * or, of layouts slots and pages, of bytes.
 * Each was replayed by itself, and what its lanes held was recorded block by
 * block (kv_layout_asked.record): pages decide nothing, so what a method does
 * is the same with and without neighbours. Here one page manager (ref/pages)
 * serves all of them, a step at a time:
 *
 *   a step  first requests that are over give back their pages, and a block of
 *           a prompt reserves its own; then, in one compaction of all heads of
 *           all layers of all requests, blocks of prompts are compressed and
 *           the others decode a token
 *   a request takes a step for each block of its prompt and each token behind
 *           it, from the step at which it is let in
 *
 * Requests ask in the order in which they arrive. One that asks for more pages
 * than there are gets none of them, and then
 *
 *   without wait  it is refused: it gives back what it has, and does not go on.
 *           Of several that find too few, the last leaves, and the others ask
 *           again
 *   with wait  nobody who waits is let in before who arrived earlier, and only
 *           after those that run had their step. Where one that runs finds too
 *           few pages, the last of all that run gives back what it has, and is
 *           the first to wait; it comes back by one block of all the tokens
 *           that it had seen, and goes on from there, as an engine that
 *           computes them again lets it. In a step in which one was put back
 *           nobody is let in. Refused is only who finds too few pages alone
 *  to stay  the same, but a request is let in only where at each of its steps
 *           the pool has room for it and for all who were let in: nobody is
 *           ever put back, and fewer run at a time
 *
 * The result is the same for any number of threads. Cost: O(heads) a request
 * that is there and step; to stay, once more of each request alone, with
 * O(pages) for each, and at each step in which a request waits O(points) for
 * each that runs. Decides nothing, prints nothing.
 */
#ifndef KV_SIM_TOGETHER_H
#define KV_SIM_TOGETHER_H

#include "sim/replay/layout/layouts.h"
#include "sim/run/look/arrivals.h"

typedef struct kv_together {
  int64_t pool; /* bytes */
  int threads;  /* >= 1 */
  kv_pool_wait wait;
  bool bytes; /* the layout has no page tables of its own: a pool of bytes */
  /* When they arrive, and after how many tokens behind the prompt each is over
   * at the latest; of a file there is a line for each request. */
  kv_arrivals arrive;
} kv_together;

/* The pool after each step in which any request asked for one. */
typedef struct kv_pool_steps {
  int64_t n;
  kv_pool_step *at; /* [n], for free() */
} kv_pool_steps;

/* Runs n requests in the order in which they arrive, and fills out[n] and
 * *steps, which the caller zeroed and frees, after a failure, too.
 * request[n]: the accounts of replayed cells, one layout of each recorded;
 * NULL: that cell did not run, and arrives without asking for anything.
 * KV_REFUSED: these cannot share a pool; the sentence says why. KV_RESOURCE:
 * memory. KV_INTERNAL: the counts of pages do not agree. */
kv_rc kv_together_run(const kv_together *how, int n,
                      const kv_layouts *const *request,
                      kv_together_result *const *out, kv_pool_steps *steps,
                      kv_err *e);

/* Before anything is replayed: *pages of a pool for rows of `shape`, of
 * `layers` recorded layers; 0: such rows have no page. KV_USAGE: a request
 * needs a page at least for each of its heads, and there are fewer. */
kv_rc kv_together_pages(const kv_together *how, const kv_shape *shape,
                        int layers, int64_t *pages, kv_err *e);

/* Writes why a refused request was, as the end of a sentence about it, cut to
 * `size` bytes. */
void kv_together_say(const kv_together_result *r, size_t size, char *out);

#endif
