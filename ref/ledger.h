/* SPDX-License-Identifier: Apache-2.0
 *
 * What a store holds, in bytes: a value that adds. Filled by walking lanes
 * (kv_lane_bytes), never by a method. Prices per entry: position 4 B once its
 * lane has dropped or merged anything; row index 4 B once rows are not in
 * order; weight 4 B if the method merges; columns 8 or 4 B each; a group's
 * bytes whole until its last member goes.
 */
#ifndef KV_REF_LEDGER_H
#define KV_REF_LEDGER_H

#include <stdint.h>

typedef struct kv_bytes {
  int64_t payload;  /* K and V, or their codes */
  int64_t metadata; /* scales, minima, positions, weights, row index */
  int64_t columns;  /* per-entry numbers of the method */
  int64_t side;     /* the method's declared memory */
  int64_t slack;    /* held and unused: page fragmentation */
} kv_bytes;

static inline int64_t kv_bytes_total(const kv_bytes *b) {
  return b->payload + b->metadata + b->columns + b->side + b->slack;
}

static inline void kv_bytes_add(kv_bytes *sum, const kv_bytes *b) {
  sum->payload += b->payload;
  sum->metadata += b->metadata;
  sum->columns += b->columns;
  sum->side += b->side;
  sum->slack += b->slack;
}

#endif
