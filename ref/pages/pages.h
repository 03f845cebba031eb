/* SPDX-License-Identifier: Apache-2.0
 *
 * A page manager after LeanKV ("parallel KV compaction"): it records which page
 * of a pool belongs to which head of which request. Three structures:
 *
 *   ring    a circular list of the ids of free pages, and their number. Pages
 *           are taken at its start and returned at its end
 *   table   a row of page ids for each head of each request: high-tier pages
 *           from the left, low-tier pages from the right. The two never meet
 *   heads   how many pages and tokens of each tier a head holds
 *
 * Compaction is one call a step for the whole batch, requests x heads (layers x
 * KV heads). Every head plans for itself, prefix sums give each its place in
 * the ring, and every head acts for itself. Threads divide the heads into parts
 * of fixed size and add only integers, so the ring and the tables do not depend
 * on the number of threads.
 *
 * Pages that a request returns in a call can be taken in the same call: by
 * every request if it takes none itself, else by itself and later ones.
 * Requests are served in batch order. One that finds too few pages is refused,
 * which changes neither it nor any other.
 *
 *   variant  a prompt reserves     a step takes a page of a tier
 *   paper    ceil(P / high)        when a token finds the tier full
 *   code     that, and 1 where     before it is decided where the token goes:
 *            there is a low tier   whenever a tier is full, or empty
 *
 * After a prompt, in both variants: high = ceil(tokens / high), low =
 * ceil(tokens / low) out of what was reserved; the rest is returned. If the
 * paper's reserve is then short, by one page at most, that page is taken.
 * Decode steps return nothing, unless the two ends of a table would meet: then
 * these formulas apply.
 *
 * Only open may fail or allocate. One call at a time. Memory: 4 bytes a page
 * and table entry, 24 a head of a request.
 */
#ifndef KV_REF_PAGES_PAGES_H
#define KV_REF_PAGES_PAGES_H

#include "ref/ground/err.h"
#include "ref/pages/plan.h"

/* Heads that one thread plans and moves at a time. */
enum { KV_PAGES_PART = 64 };

/* Any code may read it; only the functions below write. */
typedef struct kv_pages {
  kv_pages_shape shape;
  int threads;           /* that compute a call */
  int32_t *ring;         /* [pages] */
  int32_t start, count;  /* ids ring[start], ... are free, count of them */
  int32_t *table;        /* [requests][heads][shape.table] */
  kv_pages_count *held;  /* [requests][heads] pages */
  kv_pages_count *store; /* [requests][heads] tokens */
  kv_pages_books books;  /* totals since open or reset */
  /* Scratch of a call. */
  kv_pages_count *goal; /* [requests][heads] pages after the call */
  kv_pages_part *part;  /* [requests][parts] */
  int parts;            /* of the heads of a request */
  uint64_t *mark;       /* one bit a page */
} kv_pages;

/* kv_pages_shape.table: entries of a head's table for requests of at most
 * most_tokens, with tokens[tier] to a page. fewest: tokens of a page in the
 * configuration that has the fewest, which variant code uses. */
int32_t kv_pages_table(kv_pages_variant variant, int32_t most_tokens,
                       const int32_t tokens[KV_TIERS], int32_t fewest);

/* Allocates; all pages are free and no request has any. KV_RESOURCE: no memory,
 * and *out is zeroed. */
kv_rc kv_pages_open(const kv_pages_shape *shape, int threads, kv_pages *out,
                    kv_err *e);
void kv_pages_close(kv_pages *p); /* accepts zeroed; does not zero it */
/* Returns to the state after open, books included. */
void kv_pages_reset(kv_pages *p);

/* One step of n requests, one job each; fills in the jobs' answers (refused,
 * wanted). Returns how many were refused. */
int kv_pages_compact(kv_pages *p, int n, kv_pages_job *job);

/* [shape.table] the page ids of one head, for checks. */
static inline const int32_t *kv_pages_row(const kv_pages *p, int request,
                                          int head) {
  return p->table + ((int64_t)request * p->shape.heads + head) * p->shape.table;
}

/* Pages that are not free. */
static inline int32_t kv_pages_used(const kv_pages *p) {
  return p->shape.pages - p->count;
}

/* For checks: do free ids and table ids together name every page once, do the
 * two ends of every table stay apart, does every tier have pages for its
 * tokens, and do the books agree? Walks everything and writes p->mark. */
bool kv_pages_sound(kv_pages *p);

#endif
