/* SPDX-License-Identifier: Apache-2.0
 *
 * What the vector headers of x86-64 share. Included by them.
 */
#ifndef KV_REF_KERNELS_VEC_X86_H
#define KV_REF_KERNELS_VEC_X86_H

#include "ref/kernels/vec.h"
#include <immintrin.h>

/* The 4 bytes at `at` of four rows. */
INLINE __m128i four_words(bytes *const *row, size_t at) {
  int32_t word[4];
  UNROLL for (int i = 0; i < 4; i++) memcpy(&word[i], row[i] + at, 4);
  return _mm_setr_epi32(word[0], word[1], word[2], word[3]);
}

#endif
