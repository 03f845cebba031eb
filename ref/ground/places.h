/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows at other places (arithmetic 6). A key or a query that the model turned
 * to its position p and that is attended at place i is turned back by
 * RN32(p f) and forth by RN32(i f), each of which is what a model would have
 * turned by: one turn by p - i would keep how far the two were rounded apart,
 * 4e-4 of an output at 32,768 tokens. A row whose place is its position stays
 * as it is, to the bit.
 *
 * Places are p[0] + i, i < n_tokens. Sines and cosines of a position are made
 * when it is first asked for, so that memory is taken and time spent for those
 * alone that are; all who open the rotations of one request at a time share
 * them. Working memory: nobody is charged for it.
 */
#ifndef KV_REF_PLACES_H
#define KV_REF_PLACES_H

#include "ref/ground/rope.h"

typedef struct kv_places kv_places;

/* Floats of `room` that a caller of kv_place_row lends. */
#define KV_PLACE_ROOM(d) (3 * (size_t)(d))

/* The places of lanes of n_tokens entries with rows of d. rope, which outlives
 * them, has frequencies and reaches the places (kv_rope_reaches). KV_RESOURCE:
 * no memory, and *out is NULL. Thread-safe, as all of these; close accepts
 * NULL. */
kv_rc kv_places_open(const kv_rope *rope, int n_tokens, int d, kv_places **out,
                     kv_err *e);
void kv_places_close(kv_places *p);

/* Turns row[d], a key or query of token t as the model turned it, to place
 * p[0] + i, in its place. */
void kv_place_row(kv_places *p, uint32_t t, int i, float *room, float *row);

#endif
