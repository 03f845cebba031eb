/* SPDX-License-Identifier: Apache-2.0
 *
 * The page manager's plan for one head, for C and CUDA: how many pages of each
 * tier it will hold, and which table and ring entries are read and written for
 * that. ref/pages/pages.h (CPU) and gpu/backend/pages.cu (device) act on it and
 * let heads share the ring. Cheap integer formulas.
 */
#ifndef KV_REF_PAGES_PLAN_H
#define KV_REF_PAGES_PLAN_H

#include "ref/ground/arith.h"
#include <stdbool.h>

enum { KV_HIGH, KV_LOW, KV_TIERS }; /* the tiers */

/* LeanKV's paper, or its authors' code; ref/pages/pages.h has the difference.
 */
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
  int32_t table;            /* entries of a head's row: kv_pages_table */
  int32_t tokens[KV_TIERS]; /* of a page; low 0: there is no low tier */
} kv_pages_shape;

/* Tokens or pages, by tier. */
typedef struct kv_pages_count {
  int32_t of[KV_TIERS];
} kv_pages_count;

/* What a request does in a step. */
typedef enum kv_pages_phase {
  KV_PAGES_PROMPT,     /* prompt tokens are about to enter */
  KV_PAGES_COMPRESSED, /* the prompt was compressed to `count` */
  KV_PAGES_STEP,       /* a decode step left `count` */
  KV_PAGES_END         /* the request is over */
} kv_pages_phase;

/* One request's job in a step. */
typedef struct kv_pages_job {
  kv_pages_phase phase;
  int request;                 /* at most once in a batch */
  int32_t tokens;              /* PROMPT: tokens that enter */
  const kv_pages_count *count; /* [heads] tokens stored; COMPRESSED and STEP */
  bool refused;                /* answer: too few pages were free */
  int64_t wanted;              /* answer: pages that it takes, or would take */
} kv_pages_job;

typedef struct kv_pages_books {
  int64_t taken, given; /* ids read from the ring, and written into it */
  int64_t turned;       /* reserved pages that became pages of the low tier */
  int32_t peak;         /* most pages in use after a call */
} kv_pages_books;

/* Pages that some heads return and take; later, the offset in the ring where
 * they begin, which is the sum over the heads before them. */
typedef struct kv_pages_part {
  int64_t give, take;
} kv_pages_part;

/* How one head's pages change. */
typedef struct kv_pages_change {
  int32_t turn;           /* pages past the high tier's goal that become low */
  int32_t give[KV_TIERS]; /* returned to the ring; of high those after `turn` */
  int32_t take[KV_TIERS]; /* from the ring */
} kv_pages_change;

/* --- plan ----------------------------------------------------------------- */

/* Pages for so many tokens, of_page to a page; of_page 0: no such tier. */
KV_FN int32_t kv_pages_for(int32_t tokens, int32_t of_page) {
  return of_page ? (tokens + of_page - 1) / of_page : 0;
}

KV_FN int32_t kv_pages_larger(int32_t a, int32_t b) { return a > b ? a : b; }

/* The fewest pages for a head's tokens, which it holds after a prompt. */
KV_FN kv_pages_count kv_pages_least(const kv_pages_shape *s,
                                    const kv_pages_count *tokens) {
  kv_pages_count n;
  n.of[KV_HIGH] = kv_pages_for(tokens->of[KV_HIGH], s->tokens[KV_HIGH]);
  n.of[KV_LOW] = kv_pages_for(tokens->of[KV_LOW], s->tokens[KV_LOW]);
  return n;
}

/* Pages of a head before a prompt of so many tokens. held, store: its pages and
 * tokens now. */
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

/* Pages of a tier after a step: the largest of what it had, what its tokens
 * need and, in variant code, what it took before the token's tier was known. */
KV_FN int32_t kv_pages_grown(const kv_pages_shape *s, int tier, int32_t need,
                             const kv_pages_count *held,
                             const kv_pages_count *store) {
  int32_t before = store->of[tier] + (s->variant == KV_PAGES_CODE);
  int32_t n = kv_pages_larger(need, kv_pages_for(before, s->tokens[tier]));
  return kv_pages_larger(n, held->of[tier]);
}

/* Pages of a head after a decode step that left `tokens`. */
KV_FN kv_pages_count kv_pages_grow(const kv_pages_shape *s,
                                   const kv_pages_count *tokens,
                                   const kv_pages_count *held,
                                   const kv_pages_count *store) {
  kv_pages_count least = kv_pages_least(s, tokens), n;
  n.of[KV_HIGH] = kv_pages_grown(s, KV_HIGH, least.of[KV_HIGH], held, store);
  n.of[KV_LOW] = kv_pages_grown(s, KV_LOW, least.of[KV_LOW], held, store);
  return n.of[KV_HIGH] + n.of[KV_LOW] > s->table ? least : n;
}

/* The pages that head `head` of the job's request will hold. held, store: its
 * pages and tokens now. */
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

/* max(a - b, 0). */
KV_FN int32_t kv_pages_above(int32_t a, int32_t b) { return a > b ? a - b : 0; }

/* The change from a head's pages now to its goal. */
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

/* Index of the at-th entry after the start of a ring of so many pages. */
KV_FN int32_t kv_pages_place(int32_t start, int64_t at, int32_t pages) {
  for (at += start; at >= pages;) at -= pages;
  return (int32_t)at;
}

/* Index, in a head's row of `table` ids, of the x-th page that it returns. */
KV_FN int32_t kv_pages_from(int32_t table, const kv_pages_change *c,
                            const kv_pages_count *goal, int32_t x) {
  int32_t low = x - c->give[KV_HIGH];
  return low < 0 ? goal->of[KV_HIGH] + c->turn + x
                 : table - 1 - goal->of[KV_LOW] - low;
}

/* Index for the x-th page that the head takes. now: its pages before. */
KV_FN int32_t kv_pages_to(int32_t table, const kv_pages_change *c,
                          const kv_pages_count *now, int32_t x) {
  int32_t low = x - c->take[KV_HIGH];
  return low < 0 ? now->of[KV_HIGH] + x
                 : table - 1 - now->of[KV_LOW] - c->turn - low;
}

/* Makes the x-th page after the high tier the next one of the low tier. Swaps,
 * because both ends may be in the gap. Returned pages were read before. */
KV_FN void kv_pages_turn(int32_t *ids, int32_t table, const kv_pages_count *now,
                         const kv_pages_count *goal, int32_t x) {
  int32_t left = goal->of[KV_HIGH] + x, right = table - 1 - now->of[KV_LOW] - x;
  if (left >= right) return;
  int32_t id = ids[left];
  ids[left] = ids[right];
  ids[right] = id;
}

/* Updates *store, the tokens of a head, by a job. */
KV_FN void kv_pages_remember(const kv_pages_job *j, int head,
                             kv_pages_count *store) {
  const kv_pages_count none = {{0, 0}};
  if (j->phase == KV_PAGES_END)
    *store = none;
  else if (j->phase != KV_PAGES_PROMPT)
    *store = j->count[head];
}

#endif
