/* SPDX-License-Identifier: Apache-2.0
 *
 * The prompt's attention in blocks: how much of its mass each pair of a query
 * block and a key block has. Block b holds tokens b * block up to the next
 * one's first; the last may be shorter. A pair is counted where some row of the
 * query block sees some token of the key block.
 *
 *   grid_init once a layer; block_masses for each KV head; grid_release
 *
 * Masses are sums of RN(P * 2^40), whole numbers, so that neither the number of
 * threads nor the kernel set can change one.
 */
#ifndef KV_TRACES_BLOCKS_H
#define KV_TRACES_BLOCKS_H

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

typedef struct kv_grid {
  int tokens, block; /* of the prompt; of a block */
  int blocks;        /* query blocks, and as many key blocks */
  int32_t *from;     /* [blocks] first key block that query block i sees; the
                        last is i */
  int64_t *first;    /* [blocks + 1] pairs of the query blocks before i */
} kv_grid;

/* Pairs in all. */
static inline int64_t kv_grid_pairs(const kv_grid *x) {
  return x->first[x->blocks];
}

/* Index of the pair of query block i and key block j; -1: nobody sees it. */
static inline int64_t kv_grid_at(const kv_grid *x, int i, int j) {
  return j < x->from[i] || j > i ? -1 : x->first[i] + j - x->from[i];
}

/* Of the i-th recorded layer, in blocks of `block` >= 1 tokens. KV_INPUT: not
 * all query rows of the prompt are recorded; KV_RESOURCE: memory. *x is for
 * kv_grid_release, also after a failure. */
kv_rc kv_grid_init(kv_grid *x, const kv_trace *t, int i, int block, kv_err *e);
void kv_grid_release(kv_grid *x);

/* Masses of the query heads that read KV head g: out[group][pairs], zeroed by
 * the caller. Cost: the prompt's logits; memory, a thread: 32 rows of logits
 * and, for each query head of a group, a row of sums. KV_INPUT: a logit is not
 * finite; KV_RESOURCE: memory. out means nothing then. */
kv_rc kv_block_masses(const kv_grid *x, const kv_trace *t, int i, int g,
                      const kv_kernels *kernel, int64_t *out, kv_err *e);

#endif
