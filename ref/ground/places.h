/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotates rows to new positions (arithmetic 6), for lanes that re-index. A key
 * or query that the model rotated to position p and that is attended at place i
 * is rotated back by RN32(p f), then forth by RN32(i f), where f is the
 * frequency. A model rotates by exactly these rounded angles. One rotation by p
 * - i would keep the difference of their rounding errors: 4e-4 of an output at
 * 32,768 tokens. A row whose place is its position stays the same, to the bit.
 *
 * Places are p[0] + i, i < n_tokens. Sines and cosines of a position are
 * computed when first needed. Everything that opens the rotations of one
 * request at the same time shares them. No ledger counts this working memory.
 */
#ifndef KV_REF_PLACES_H
#define KV_REF_PLACES_H

#include "ref/ground/rope.h"

typedef struct kv_places kv_places;

/* Floats of working memory (`room`) that a caller of kv_place_row provides. */
#define KV_PLACE_ROOM(d) (3 * (size_t)(d))

/* Opens the places for lanes of n_tokens entries with rows of d. rope, which
 * outlives them, has frequencies and reaches the places (kv_rope_reaches).
 * KV_RESOURCE: no memory, and *out is NULL. All functions here are thread-safe;
 * close accepts NULL. */
kv_rc kv_places_open(const kv_rope *rope, int n_tokens, int d, kv_places **out,
                     kv_err *e);
void kv_places_close(kv_places *p);

/* Rotates row[d], a key or query of token t as the model rotated it, to place
 * p[0] + i, in place. */
void kv_place_row(kv_places *p, uint32_t t, int i, float *room, float *row);

#endif
