/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256's compression with the x86 SHA instructions. Contract:
 * ref/ground/sha256_blocks.h.
 *
 * The instructions hold the state as ABEF and CDGH. One sha256rnds2 makes two
 * rounds and leaves the new ABEF where CDGH was; sha256msg1 and msg2 extend
 * the schedule by four words, the w[t-7] term comes in between (alignr).
 */
#include "ref/ground/sha256_blocks.h"

#if defined(__x86_64__)
#  include <cpuid.h>
#  include <immintrin.h>
#  include <stdatomic.h>

#  define SHA __attribute__((target("sha,sse4.1,ssse3")))

/* cpuid exits a virtual machine, so it runs once: 0 unknown, 1 no, 2 yes. Any
 * thread finds the same answer, so racing writes agree. */
int kv_sha256_has_ni(void) {
  static atomic_int known;
  int k = atomic_load_explicit(&known, memory_order_relaxed);
  if (!k) {
    unsigned a, b = 0, c, d;
    k = 1;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1) &&
        __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3"))
      k = 2;
    atomic_store_explicit(&known, k, memory_order_relaxed);
  }
  return k == 2;
}

/* Four rounds with the words w. */
SHA static inline __attribute__((always_inline)) void
rounds(__m128i *abef, __m128i *cdgh, __m128i w, int t) {
  const void *k = kv_sha256_constants + t;
  __m128i wk = _mm_add_epi32(w, _mm_loadu_si128((const __m128i *)k));
  *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, wk);
  *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(wk, 0x0e));
}

/* The next four words after a, b, c, d. */
SHA static inline __attribute__((always_inline)) __m128i
extend(__m128i a, __m128i b, __m128i c, __m128i d) {
  __m128i w = _mm_sha256msg1_epu32(a, b);
  w = _mm_add_epi32(w, _mm_alignr_epi8(d, c, 4));
  return _mm_sha256msg2_epu32(w, d);
}

SHA static void compress(__m128i *abef, __m128i *cdgh, const uint8_t *data) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i a = *abef, c = *cdgh;
  __m128i w[4];
  for (int i = 0; i < 4; i++) {
    const void *p = data + 16 * i;
    w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p), swap);
    rounds(abef, cdgh, w[i], 4 * i);
  }
  for (int t = 16; t < 64; t += 16) {
    w[0] = extend(w[0], w[1], w[2], w[3]);
    rounds(abef, cdgh, w[0], t);
    w[1] = extend(w[1], w[2], w[3], w[0]);
    rounds(abef, cdgh, w[1], t + 4);
    w[2] = extend(w[2], w[3], w[0], w[1]);
    rounds(abef, cdgh, w[2], t + 8);
    w[3] = extend(w[3], w[0], w[1], w[2]);
    rounds(abef, cdgh, w[3], t + 12);
  }
  *abef = _mm_add_epi32(*abef, a);
  *cdgh = _mm_add_epi32(*cdgh, c);
}

SHA void kv_sha256_blocks_ni(uint32_t state[8], const uint8_t *data,
                             size_t count) {
  __m128i *s = (__m128i *)(void *)state;
  /* dcba, hgfe -> abef, cdgh (highest lane first) */
  __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(s), 0xb1);
  __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(s + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(badc, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, badc, 0xf0);
  for (; count; count--, data += 64) compress(&abef, &cdgh, data);
  __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(s, _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(s + 1, _mm_alignr_epi8(dchg, feba, 8));
}

#else

int kv_sha256_has_ni(void) { return 0; }

void kv_sha256_blocks_ni(uint32_t state[8], const uint8_t *data, size_t count) {
  kv_sha256_blocks_plain(state, data, count);
}

#endif
