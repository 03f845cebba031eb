/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary positions (arithmetic 6): rotates rows [d] of keys and queries by the
 * angles of their position, as RoPE does, and back. The angle of pair i, i <
 * d/2, is RN32((float)position * inv_freq[i]), in radians. Its sine and cosine
 * come from one binary64 routine with explicit fma and are rounded to binary32.
 * No libm. Everything is thread-safe; only kv_turns_open allocates.
 */
#ifndef KV_REF_ROPE_H
#define KV_REF_ROPE_H

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include <stdbool.h>

/* RoPE position of token t: the recorded one, or t if there is none. */
static inline int32_t kv_rope_position(const kv_rope *rope, uint32_t t) {
  return rope && rope->positions ? rope->positions[t] : (int32_t)t;
}

/* May a lane be re-indexed, so that its entries are attended at p[0], p[0] + 1,
 * ... instead of their tokens' positions? True if for n_tokens entries these
 * fit an int32 and their angles are below 2^24, the limit of kv_sincos. rope
 * must have frequencies. */
bool kv_rope_reaches(const kv_rope *rope, int d, int n_tokens);

/* Sine and cosine of the angle x in radians, |x| < 2^24 (asserted). */
void kv_sincos(float x, float *sine, float *cosine);

/* Fills sc[d], the rotation table of one position: sc[2i] = sine and sc[2i+1] =
 * cosine of position * inv_freq[i], i < d/2. */
void kv_rope_table(const float *inv_freq, int d, int32_t position, float *sc);

/* kv_rope_rotate computes y, x rotated by the table sc as RoPE does;
 * kv_rope_unrotate computes x from y. Rows have d floats; y may be x. Pairs are
 * (i, i+d/2), or (2i, 2i+1) if interleaved is not 0. */
void kv_rope_rotate(int d, int interleaved, const float *sc, const float *x,
                    float *y);
void kv_rope_unrotate(int d, int interleaved, const float *sc, const float *y,
                      float *x);

/* Computes y: x rotated back by the table `from`, then forth by `to`, with the
 * bits of the two calls above. y must not be x. */
void kv_rope_move(int d, int interleaved, const float *from, const float *to,
                  const float *x, float *y);

/* The tables of all tokens, for callers that rotate the same keys repeatedly.
 * Row t of sc, [n_tokens][d], is kv_rope_table of token t's position. With
 * ahead > 0 there is one more row, n_tokens: the mean of the tables of
 * distances 1 .. ahead. Each of its sines and cosines is one sum of RN(x *
 * 2^40), rounded once, divided by ahead. */
typedef struct kv_turns {
  const kv_rope *rope;
  int d;     /* floats of a row */
  float *sc; /* [n_tokens, or one more if ahead > 0][d] */
} kv_turns;

/* Fills in *out. rope has frequencies and outlives it; ahead 0: no mean row.
 * KV_RESOURCE without memory; close it then, too. Close accepts zeroed. */
kv_rc kv_turns_open(const kv_rope *rope, int n_tokens, int d, int ahead,
                    kv_turns *out, kv_err *e);
void kv_turns_close(kv_turns *t);
/* Rotates token t's key [d] in place: kv_turn_back to its state before RoPE, up
 * to rounding; kv_turn_forth to its position. No change at position 0. */
void kv_turn_back(const kv_turns *turns, uint32_t t, float *key);
void kv_turn_forth(const kv_turns *turns, uint32_t t, float *key);
/* key = RN(key + sign * s), where s [d] is u rotated to token t's position and
 * sign is 1 or -1. */
void kv_turn_add(const kv_turns *turns, uint32_t t, float sign, const float *u,
                 float *key);

#endif
