/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary positions (arithmetic 6): the angle is RN32((float)distance *
 * inv_freq[i]), its sine and cosine come from one binary64 routine with
 * explicit fma and are rounded to binary32. No libm.
 */
#ifndef KV_REF_ROPE_H
#define KV_REF_ROPE_H

#include "ref/shape.h"

/* sine and cosine of the binary32 angle x, |x| < 2^24. */
void kv_sincos(float x, float *sine, float *cosine);

/* sc[2i] = sine, sc[2i+1] = cosine of distance * inv_freq[i], i < d/2. */
void kv_rope_table(const float *inv_freq, int d, int32_t distance, float *sc);

/* y = x rotated by the table (and back): y may be x. Pairs are (i, i+d/2), or
 * (2i, 2i+1) where interleaved. */
void kv_rope_rotate(int d, int interleaved, const float *sc, const float *x,
                    float *y);
void kv_rope_unrotate(int d, int interleaved, const float *sc, const float *y,
                      float *x);

#endif
