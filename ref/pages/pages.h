/* SPDX-License-Identifier: Apache-2.0
 *
 * A page manager after LeanKV ("parallel KV compaction"): which page of a pool
 * belongs to which head of which request. Three structures:
 *
 *   ring    a circular list of the ids of free pages, with the number of them.
 *           Pages are taken at its start and come back at its end
 *   table   for each head of each request one row of page ids: pages of the
 *           high tier from the left, those of the low tier from the right. The
 *           two never meet
 *   heads   how many pages of each tier a head holds, and tokens in them
 *
 * Compaction is one call a step for the whole batch, requests x heads (layers x
 * KV heads): every head plans by itself, prefix sums give each its place in the
 * ring, every head acts by itself. Threads divide the heads in parts of fixed
 * size and only integers are added, so the ring and the tables are the same for
 * any number of threads.
 *
 * What a request gives back in a call can be taken in the same call: by every
 * request where it takes none, else by itself and those behind it. Requests are
 * served in the order of the batch; one that finds too few pages is refused,
 * and then neither it nor any other has changed because of it.
 *
 *   variant  a prompt reserves     a step takes a page of a tier
 *   paper    ceil(P / high)        when a token finds the tier full
 *   code     that, and 1 where     before it is decided where the token goes:
 *            there is a low tier   whenever a tier is full, or empty
 *
 * After a prompt, both: high = ceil(tokens / high), low = ceil(tokens / low)
 * out of what was reserved, and the rest goes back; what the paper's reserve
 * lacks then, one page at most, is taken. Of steps nothing goes back, except
 * where the two ends of a table would meet: then to these formulas.
 *
 * open may fail; nothing after it does, or allocates. One call at a time.
 * Memory: 4 bytes a page and an entry of a table, 24 a head of a request.
 */
#ifndef KV_REF_PAGES_PAGES_H
#define KV_REF_PAGES_PAGES_H

#include "ref/ground/err.h"
#include "ref/pages/plan.h"

/* Heads that one thread plans and moves at a time. */
enum { KV_PAGES_PART = 64 };

/* Readable by anyone; written by the functions below alone. */
typedef struct kv_pages {
  kv_pages_shape shape;
  int threads;           /* that a call computes in */
  int32_t *ring;         /* [pages] */
  int32_t start, count;  /* ids ring[start], ... are free, count of them */
  int32_t *table;        /* [requests][heads][shape.table] */
  kv_pages_count *held;  /* [requests][heads] pages */
  kv_pages_count *store; /* [requests][heads] tokens */
  kv_pages_books books;  /* totals since open or reset */
  /* Scratch of a call. */
  kv_pages_count *goal; /* [requests][heads] pages after it */
  kv_pages_part *part;  /* [requests][parts] */
  int parts;            /* of the heads of a request */
  uint64_t *mark;       /* a bit a page */
} kv_pages;

/* kv_pages_shape.table: the entries of a head's table for requests of at most
 * so many tokens, with so many tokens to a page of each tier. fewest: tokens of
 * a page in the configuration that has the fewest, which variant code goes by.
 */
int32_t kv_pages_table(kv_pages_variant variant, int32_t most_tokens,
                       const int32_t tokens[KV_TIERS], int32_t fewest);

/* Takes the memory; all pages are free, no request has any. KV_RESOURCE: no
 * memory, and *out is zeroed. */
kv_rc kv_pages_open(const kv_pages_shape *shape, int threads, kv_pages *out,
                    kv_err *e);
void kv_pages_close(kv_pages *p); /* accepts zeroed; does not zero it */
/* As after open, books included. */
void kv_pages_reset(kv_pages *p);

/* One step of n requests, each in one job, whose answers it fills in (refused,
 * wanted). Returns how many were refused. */
int kv_pages_compact(kv_pages *p, int n, kv_pages_job *job);

/* [shape.table] the page ids of a head of a request, for checks. */
static inline const int32_t *kv_pages_row(const kv_pages *p, int request,
                                          int head) {
  return p->table + ((int64_t)request * p->shape.heads + head) * p->shape.table;
}

/* Pages that are not free. */
static inline int32_t kv_pages_used(const kv_pages *p) {
  return p->shape.pages - p->count;
}

/* For checks: true if free ids and table ids are a permutation of all pages, no
 * table's ends meet, every tier has pages for its tokens, and books say that as
 * many pages are held. Walks everything and writes p->mark. */
bool kv_pages_sound(kv_pages *p);

#endif
