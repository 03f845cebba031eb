/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention that entries received, query by query. Over the prompt's
 * queries it is a sum for each query head; the prompt's compression takes the
 * largest of these. Then each step adds its largest over the query heads
 * (LeanKV's scores). The scores are in a column of floats; the lane's state
 * also records how many queries counted.
 *
 * A later prompt that does not show all its queries starts anew: its queries
 * replace the earlier scores.
 */
#ifndef KV_REF_RECEIVED_H
#define KV_REF_RECEIVED_H

#include "ref/parts/parts.h"

/* After the sums in the lane's own state. */
typedef struct kv_received {
  int32_t first; /* first of the queries that count without a gap */
  int32_t next;  /* tokens seen at the last compression */
} kv_received;

/* For a prompt that ends now, s->prompt_len: are some queries since the last
 * compression not shown? queries: the last so many of a prompt are; 0: all. */
KV_FN bool kv_received_gap(const kv_received *c, const kv_shape *s,
                           int queries) {
  return queries > 0 && s->prompt_len - queries > c->next;
}

/* Bytes of needs.lane_state: sums of the prompt, then a kv_received. */
size_t kv_received_state(const kv_shape *s);
/* In observe, for a method that wants KV_SUM. column: index of the method's
 * column of floats. own: does a token's own query count for it? If not, the
 * method must also want KV_P. */
void kv_received_add(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                     int column, bool own);
/* In compress_lane, for a method with needs.every = 1, before scores are read:
 * at the end of a prompt adds its sums to the column. */
void kv_received_compress(const kv_at *at, kv_lane *lane, int column,
                          int queries);
/* The token id of the first query that counts; all later ones count too. */
int kv_received_first(const kv_at *at, const kv_lane *lane);

#endif
