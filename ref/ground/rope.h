/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary positions (arithmetic 6): turning the rows [d] of keys and queries by
 * the angles of their position, as RoPE does, and back. The angle of pair i,
 * i < d/2, is RN32((float)position * inv_freq[i]), in radians; its sine and
 * cosine come from one binary64 routine with explicit fma and are rounded to
 * binary32. No libm. All is thread-safe, and only kv_turns_open allocates.
 */
#ifndef KV_REF_ROPE_H
#define KV_REF_ROPE_H

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include <stdbool.h>

/* RoPE position of token t: the recorded one, or t where rope is NULL or holds
 * no positions. */
static inline int32_t kv_rope_position(const kv_rope *rope, uint32_t t) {
  return rope && rope->positions ? rope->positions[t] : (int32_t)t;
}

/* True if a lane may be re-indexed, that is, its entries be attended at the
 * places p[0], p[0] + 1, ... in place of their tokens' positions: for n_tokens
 * entries the places fit an int32, and their angles are below 2^24, as
 * kv_sincos asks. rope has frequencies. */
bool kv_rope_reaches(const kv_rope *rope, int d, int n_tokens);

/* Sine and cosine of the angle x in radians, |x| < 2^24 (asserted). */
void kv_sincos(float x, float *sine, float *cosine);

/* Fills sc[d], the table of one position that rows are turned by: sc[2i] = sine
 * and sc[2i+1] = cosine of position * inv_freq[i], i < d/2. */
void kv_rope_table(const float *inv_freq, int d, int32_t position, float *sc);

/* kv_rope_rotate makes y of x, rotated by the table sc as RoPE does;
 * kv_rope_unrotate makes x of y, rotated back. Rows have d floats, and y may be
 * x. Pairs are (i, i+d/2), or (2i, 2i+1) where interleaved is not 0. */
void kv_rope_rotate(int d, int interleaved, const float *sc, const float *x,
                    float *y);
void kv_rope_unrotate(int d, int interleaved, const float *sc, const float *y,
                      float *x);

/* Makes y of x, rotated back by the table `from` and then forth by the table
 * `to`: the bits are those of the two calls above. y is not x. */
void kv_rope_move(int d, int interleaved, const float *from, const float *to,
                  const float *x, float *y);

/* The tables of all tokens, for who turns the same keys again and again: row t
 * of sc, [n_tokens][d], is kv_rope_table of token t's position. With ahead > 0
 * there is one row more, number n_tokens: the mean of the tables of the
 * distances 1 .. ahead, each sine and cosine one sum of RN(x * 2^40), rounded
 * once, divided by ahead. */
typedef struct kv_turns {
  const kv_rope *rope;
  int d;     /* floats of a row */
  float *sc; /* [n_tokens, and one where ahead > 0][d] */
} kv_turns;

/* Fills *out. rope has frequencies and outlives it; ahead 0: no row of means.
 * KV_RESOURCE: memory. Close it also after a failure; what is zeroed may be
 * closed, too. */
kv_rc kv_turns_open(const kv_rope *rope, int n_tokens, int d, int ahead,
                    kv_turns *out, kv_err *e);
void kv_turns_close(kv_turns *t);
/* Turns token t's key [d] in place: kv_turn_back to what it was before RoPE,
 * but for rounding, and kv_turn_forth from there to its position again. At
 * position 0 it stays as it is, to the bit. */
void kv_turn_back(const kv_turns *turns, uint32_t t, float *key);
void kv_turn_forth(const kv_turns *turns, uint32_t t, float *key);

#endif
