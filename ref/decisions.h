/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions made elsewhere: what a cache held, or a query attended, written
 * down step by step. The method `replay` follows them. Arrays belong to who
 * read them (traces/decisions.h), which also proved that every list holds
 * live tokens only; so a method may follow them blindly.
 */
#ifndef KV_REF_DECISIONS_H
#define KV_REF_DECISIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Lists of one kind on one layer: list h of step[i] is item[start[k]] ..
 * item[start[k + 1]), k = i * heads + h. An item is a page of `page` tokens
 * (1: a token): item p stands for the live ones of tokens
 * p * page .. p * page + page - 1. */
typedef struct kv_lists {
  int heads, page;
  int steps;
  const int32_t *step;  /* [steps] tokens seen, ascending */
  const int64_t *start; /* [steps * heads + 1] */
  const int32_t *item;
} kv_lists;

typedef struct kv_decided {
  int layer;       /* the model's number */
  kv_lists stored; /* after the settling of a step; absent: unchanged */
  kv_lists view;   /* in the attention of a step; absent: all */
} kv_decided;

typedef struct kv_decisions {
  bool stores, views; /* which of the two kinds are there */
  bool decodes;       /* something is dropped after the prompt, too */
  bool reindex;
  int block;        /* most prompt tokens that enter at once; 0: all */
  int stored_heads; /* lanes a layer */
  int layers;
  const kv_decided *layer; /* [layers] ascending */
} kv_decisions;

/* The layer's; NULL where there is none. */
const kv_decided *kv_decided_at(const kv_decisions *d, int layer);

typedef struct kv_items {
  int n;
  const int32_t *item;
} kv_items;

/* Of the params of a method that follows decisions (ref/method.h); NULL where
 * it does not. */
struct kv_method;
const kv_decisions *kv_decisions_of(const struct kv_method *m,
                                    const void *params);

/* The list of a head at a step; item NULL where the step is absent.
 * O(log steps). */
kv_items kv_lists_find(const kv_lists *l, int step, int head);

#endif
