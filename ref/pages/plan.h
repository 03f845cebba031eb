/* SPDX-License-Identifier: Apache-2.0
 *
 * What the page manager says of one head, for C and for CUDA: how many pages
 * of each tier it will hold, and which places of its row of the table and of
 * the ring are read and written for that. Who acts on it, and how heads share
 * the ring: ref/pages/pages.h on the CPU, gpu/backend/pages.cu on a device.
 * Integers; of no cost.
 */
#ifndef KV_REF_PAGES_PLAN_H
#define KV_REF_PAGES_PLAN_H

#include "ref/ground/arith.h"
#include <stdbool.h>

enum { KV_HIGH, KV_LOW, KV_TIERS }; /* the tiers */

/* LeanKV's paper, or its authors' code: ref/pages/pages.h tells them apart. */
typedef enum kv_pages_variant {
  KV_PAGES_PAPER,
  KV_PAGES_CODE
} kv_pages_variant;

/* What a manager is opened for. */
typedef struct kv_pages_shape {
  kv_pages_variant variant;
  int requests;             /* at once */
  int heads;                /* of a request, over all its layers */
  int32_t pages;            /* of the pool */
  int32_t table;            /* entries of a head: kv_pages_table */
  int32_t tokens[KV_TIERS]; /* of a page; low 0: there is no low tier */
} kv_pages_shape;

/* Tokens or pages, by tier. */
typedef struct kv_pages_count {
  int32_t of[KV_TIERS];
} kv_pages_count;

/* When a request is in a step. */
typedef enum kv_pages_phase {
  KV_PAGES_PROMPT,     /* tokens are about to enter */
  KV_PAGES_COMPRESSED, /* what they became is known: count */
  KV_PAGES_STEP,       /* the same after a step of decoding */
  KV_PAGES_END         /* the request is over */
} kv_pages_phase;

/* What happens to one request in a step. */
typedef struct kv_pages_job {
  kv_pages_phase phase;
  int request;                 /* stands in a batch once */
  int32_t tokens;              /* of PROMPT */
  const kv_pages_count *count; /* [heads] tokens stored; COMPRESSED and STEP */
  bool refused;                /* answer: it found too few pages */
  int64_t wanted;              /* answer: pages that it takes, or would */
} kv_pages_job;

/* Totals. */
typedef struct kv_pages_books {
  int64_t taken, given; /* ids read from the ring, and written into it */
  int64_t turned;       /* reserved pages that became pages of the low tier */
  int32_t peak;         /* most pages in use after a call */
} kv_pages_books;

/* Pages that some heads give and take, and, once that is known, where those
 * begin in the ring: how many of others come before them. */
typedef struct kv_pages_part {
  int64_t give, take;
} kv_pages_part;

/* How the pages of one head change, in pages. */
typedef struct kv_pages_change {
  int32_t turn; /* those behind the high tier's goal that become low */
  int32_t give[KV_TIERS]; /* to the ring; of high those behind these */
  int32_t take[KV_TIERS]; /* from the ring */
} kv_pages_change;

/* --- plan ----------------------------------------------------------------- */

/* Pages for so many tokens, of which a page holds of_page; 0: there is no such
 * tier. */
KV_FN int32_t kv_pages_for(int32_t tokens, int32_t of_page) {
  return of_page ? (tokens + of_page - 1) / of_page : 0;
}

KV_FN int32_t kv_pages_larger(int32_t a, int32_t b) { return a > b ? a : b; }

/* The fewest pages for a head's tokens: what it holds after a prompt. */
KV_FN kv_pages_count kv_pages_least(const kv_pages_shape *s,
                                    const kv_pages_count *tokens) {
  kv_pages_count n;
  n.of[KV_HIGH] = kv_pages_for(tokens->of[KV_HIGH], s->tokens[KV_HIGH]);
  n.of[KV_LOW] = kv_pages_for(tokens->of[KV_LOW], s->tokens[KV_LOW]);
  return n;
}

/* What a head holds before a prompt of so many tokens; held, store: pages and
 * tokens that it has. */
KV_FN kv_pages_count kv_pages_reserve(const kv_pages_shape *s, int32_t tokens,
                                      const kv_pages_count *held,
                                      const kv_pages_count *store) {
  kv_pages_count n = *held;
  int32_t high = kv_pages_for(store->of[KV_HIGH] + tokens, s->tokens[KV_HIGH]);
  high += s->variant == KV_PAGES_CODE && s->tokens[KV_LOW] > 0;
  if (high > s->table - n.of[KV_LOW]) high = s->table - n.of[KV_LOW];
  n.of[KV_HIGH] = kv_pages_larger(n.of[KV_HIGH], high);
  return n;
}

/* Pages of a tier after a step: what it had, or what its tokens `need` or, of
 * variant code, what it took before it knew. */
KV_FN int32_t kv_pages_grown(const kv_pages_shape *s, int tier, int32_t need,
                             const kv_pages_count *held,
                             const kv_pages_count *store) {
  int32_t before = store->of[tier] + (s->variant == KV_PAGES_CODE);
  int32_t n = kv_pages_larger(need, kv_pages_for(before, s->tokens[tier]));
  return kv_pages_larger(n, held->of[tier]);
}

/* What a head holds after a step of decoding, for `tokens` then. */
KV_FN kv_pages_count kv_pages_grow(const kv_pages_shape *s,
                                   const kv_pages_count *tokens,
                                   const kv_pages_count *held,
                                   const kv_pages_count *store) {
  kv_pages_count least = kv_pages_least(s, tokens), n;
  n.of[KV_HIGH] = kv_pages_grown(s, KV_HIGH, least.of[KV_HIGH], held, store);
  n.of[KV_LOW] = kv_pages_grown(s, KV_LOW, least.of[KV_LOW], held, store);
  return n.of[KV_HIGH] + n.of[KV_LOW] > s->table ? least : n;
}

/* The pages that head number `head` of a job's request will hold; held, store:
 * pages and tokens that it has. */
KV_FN kv_pages_count kv_pages_goal(const kv_pages_shape *s,
                                   const kv_pages_job *j, int head,
                                   const kv_pages_count *held,
                                   const kv_pages_count *store) {
  const kv_pages_count none = {{0, 0}};
  switch (j->phase) {
  case KV_PAGES_PROMPT:
    return kv_pages_reserve(s, j->tokens, held, store);
  case KV_PAGES_COMPRESSED:
    return kv_pages_least(s, &j->count[head]);
  case KV_PAGES_STEP:
    return kv_pages_grow(s, &j->count[head], held, store);
  default:
    return none;
  }
}

/* By how much a is more than b; 0: it is not. */
KV_FN int32_t kv_pages_above(int32_t a, int32_t b) { return a > b ? a - b : 0; }

/* What leads from the pages that a head has now to its goal. */
KV_FN kv_pages_change kv_pages_between(const kv_pages_count *now,
                                       const kv_pages_count *goal) {
  int32_t spare = kv_pages_above(now->of[KV_HIGH], goal->of[KV_HIGH]);
  int32_t lacks = kv_pages_above(goal->of[KV_LOW], now->of[KV_LOW]);
  int32_t turn = spare < lacks ? spare : lacks;
  kv_pages_change c;
  c.turn = turn;
  c.give[KV_HIGH] = spare - turn;
  c.give[KV_LOW] = kv_pages_above(now->of[KV_LOW], goal->of[KV_LOW]);
  c.take[KV_HIGH] = kv_pages_above(goal->of[KV_HIGH], now->of[KV_HIGH]);
  c.take[KV_LOW] = lacks - turn;
  return c;
}

/* --- act ------------------------------------------------------------------ */

/* The at-th place of a ring of so many pages behind its start. */
KV_FN int32_t kv_pages_place(int32_t start, int64_t at, int32_t pages) {
  for (at += start; at >= pages;) at -= pages;
  return (int32_t)at;
}

/* Place, in a head's row of `table` ids, of the x-th page that it gives. */
KV_FN int32_t kv_pages_from(int32_t table, const kv_pages_change *c,
                            const kv_pages_count *goal, int32_t x) {
  int32_t low = x - c->give[KV_HIGH];
  return low < 0 ? goal->of[KV_HIGH] + c->turn + x
                 : table - 1 - goal->of[KV_LOW] - low;
}

/* Place for the x-th page that it takes; now: what it had before. */
KV_FN int32_t kv_pages_to(int32_t table, const kv_pages_change *c,
                          const kv_pages_count *now, int32_t x) {
  int32_t low = x - c->take[KV_HIGH];
  return low < 0 ? now->of[KV_HIGH] + x
                 : table - 1 - now->of[KV_LOW] - c->turn - low;
}

/* The x-th page behind those of the high tier becomes the next one of the low
 * tier: a swap, as both ends may lie in what is between. All that is given was
 * read before. */
KV_FN void kv_pages_turn(int32_t *ids, int32_t table, const kv_pages_count *now,
                         const kv_pages_count *goal, int32_t x) {
  int32_t left = goal->of[KV_HIGH] + x, right = table - 1 - now->of[KV_LOW] - x;
  if (left >= right) return;
  int32_t id = ids[left];
  ids[left] = ids[right];
  ids[right] = id;
}

/* Makes *store, the tokens of a head before a job, those after it. */
KV_FN void kv_pages_remember(const kv_pages_job *j, int head,
                             kv_pages_count *store) {
  const kv_pages_count none = {{0, 0}};
  if (j->phase == KV_PAGES_END)
    *store = none;
  else if (j->phase != KV_PAGES_PROMPT)
    *store = j->count[head];
}

#endif
