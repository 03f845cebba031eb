/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention that entries received, query by query: over the prompt's
 * queries a sum for each query head, of which the largest is taken at the
 * prompt's compression; then, step by step, the largest over the query heads is
 * added (LeanKV's scores). It stands in a column of floats, and beside it what
 * one needs in order to know how many queries counted.
 *
 * A later prompt of which not all queries are shown begins anew: what its
 * queries give replaces what was there.
 */
#ifndef KV_REF_RECEIVED_H
#define KV_REF_RECEIVED_H

#include "ref/parts/parts.h"

/* Behind the sums in the lane's own memory. */
typedef struct kv_received {
  int32_t first; /* the first query of those that count without a gap */
  int32_t next;  /* tokens seen at the last compression */
} kv_received;

/* Of a prompt that ends now, s->prompt_len: are queries behind the last
 * compression not shown? queries: how many of a prompt's last ones are; 0: all.
 */
KV_FN bool kv_received_gap(const kv_received *c, const kv_shape *s,
                           int queries) {
  return queries > 0 && s->prompt_len - queries > c->next;
}

/* Bytes of needs.lane_state: sums of the prompt, then a kv_received. */
size_t kv_received_state(const kv_shape *s);
/* In observe, of a method that wants KV_SUM; column: index of the method's
 * column of floats. own: does a token's own query count for it? If not, the
 * method wants KV_P, too. */
void kv_received_add(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                     int column, bool own);
/* In compress_lane, of a method with needs.every = 1, before scores are read:
 * at the end of a prompt its sums join the column. */
void kv_received_compress(const kv_at *at, kv_lane *lane, int column,
                          int queries);
/* The token id of the first query that counts; all later ones do. */
int kv_received_first(const kv_at *at, const kv_lane *lane);

#endif
