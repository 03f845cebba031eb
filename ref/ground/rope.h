/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary positions (arithmetic 6): the angle is RN32((float)position *
 * inv_freq[i]), its sine and cosine come from one binary64 routine with
 * explicit fma and are rounded to binary32. No libm.
 */
#ifndef KV_REF_ROPE_H
#define KV_REF_ROPE_H

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include <stdbool.h>

/* RoPE position of token t; rope may be NULL. */
static inline int32_t kv_rope_position(const kv_rope *rope, uint32_t t) {
  return rope && rope->positions ? rope->positions[t] : (int32_t)t;
}

/* True if the places of n_tokens entries of a re-indexed lane, p[0] and what
 * follows it, fit an int32 and their angles are below 2^24, as those of the
 * tokens' positions are (sim/engine/cell.c). */
bool kv_rope_reaches(const kv_rope *rope, int d, int n_tokens);

/* sine and cosine of the binary32 angle x, |x| < 2^24. */
void kv_sincos(float x, float *sine, float *cosine);

/* sc[2i] = sine, sc[2i+1] = cosine of position * inv_freq[i], i < d/2. */
void kv_rope_table(const float *inv_freq, int d, int32_t position, float *sc);

/* y = x rotated by the table (and back): y may be x. Pairs are (i, i+d/2), or
 * (2i, 2i+1) where interleaved. */
void kv_rope_rotate(int d, int interleaved, const float *sc, const float *x,
                    float *y);
void kv_rope_unrotate(int d, int interleaved, const float *sc, const float *y,
                      float *x);

/* Both, back by `from` and then forth by `to`, to the bit; y is not x. */
void kv_rope_move(int d, int interleaved, const float *from, const float *to,
                  const float *x, float *y);

/* The turn of every token: row t of sc, [n_tokens][d], is kv_rope_table of
 * its position. For who turns the same keys again and again. With ahead > 0
 * one row more: the mean of the tables of the distances 1 .. ahead, each sine
 * and cosine one sum of RN(x * 2^40), rounded once, divided by ahead. */
typedef struct kv_turns {
  const kv_rope *rope;
  int d;
  float *sc;
} kv_turns;

/* rope has frequencies; close accepts what was never opened. */
kv_rc kv_turns_open(const kv_rope *rope, int n_tokens, int d, int ahead,
                    kv_turns *out, kv_err *e);
void kv_turns_close(kv_turns *t);
/* Token t's key [d] in place: as before its rotation, and rotated again. At
 * position 0 it stays as it is, to the bit. */
void kv_turn_back(const kv_turns *turns, uint32_t t, float *key);
void kv_turn_forth(const kv_turns *turns, uint32_t t, float *key);

#endif
