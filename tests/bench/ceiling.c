/* SPDX-License-Identifier: Apache-2.0
 *
 * What one thread of this machine can do. Contract: tests/bench/ceiling.h.
 */
#include "tests/bench/ceiling.h"

#include <stdint.h>
#include <string.h>
#include <time.h>

#ifdef __x86_64__
#  include <immintrin.h>
#endif

enum { REPEATS = 9 }; /* at the least, and for so many seconds: */
static const double long_enough = 0.25;

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double best_by(clockid_t clock, void (*work)(void *), void *what) {
  double best = 1e30, spent = 0;
  work(what);
  for (int i = 0; i < REPEATS || spent < long_enough; i++) {
    double t = now(clock);
    work(what);
    t = now(clock) - t;
    spent += t;
    if (t < best) best = t;
  }
  return best;
}

double best_of(void (*work)(void *), void *what) {
  return best_by(CLOCK_MONOTONIC, work, what);
}

double best_alone(void (*work)(void *), void *what) {
  return best_by(CLOCK_THREAD_CPUTIME_ID, work, what);
}

typedef struct ceiling {
  const unsigned char *data;
  size_t bytes;
  long loops;
  volatile float sink;
} ceiling;

#ifdef __x86_64__
/* 12 chains are enough for two units of latency 4 and a start. */
#  define CHAINS(DO)                                                           \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

__attribute__((target("avx512f"))) static void peak_512(void *v) {
  ceiling *c = v;
  __m512 m = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
#  define START(i) __m512 a##i = _mm512_set1_ps((float)i);
#  define STEP(i)                                                              \
    a##i = _mm512_fmadd_ps(a##i, m, b);                                        \
    __asm__("" : "+v"(a##i));
#  define SUM(i) b = _mm512_add_ps(b, a##i);
  CHAINS(START)
  for (long i = 0; i < c->loops; i++) {
    CHAINS(STEP)
  }
  CHAINS(SUM)
  c->sink = _mm512_reduce_add_ps(b);
#  undef START
#  undef SUM
}

__attribute__((target("avx2,fma"))) static void peak_256(void *v) {
  ceiling *c = v;
  __m256 m = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
#  undef STEP
#  define START(i) __m256 a##i = _mm256_set1_ps((float)i);
#  define STEP(i)                                                              \
    a##i = _mm256_fmadd_ps(a##i, m, b);                                        \
    __asm__("" : "+x"(a##i));
#  define SUM(i) b = _mm256_add_ps(b, a##i);
  CHAINS(START)
  for (long i = 0; i < c->loops; i++) {
    CHAINS(STEP)
  }
  CHAINS(SUM)
  c->sink = _mm256_cvtss_f32(b);
}

__attribute__((target("avx512f"))) static void read_512(void *v) {
  ceiling *c = v;
  __m512i a = _mm512_setzero_si512(), b = a, d = a, e = a;
  for (size_t i = 0; i < c->bytes; i += 256) {
    const unsigned char *p = c->data + i;
    a = _mm512_xor_si512(a, _mm512_loadu_si512(p));
    b = _mm512_xor_si512(b, _mm512_loadu_si512(p + 64));
    d = _mm512_xor_si512(d, _mm512_loadu_si512(p + 128));
    e = _mm512_xor_si512(e, _mm512_loadu_si512(p + 192));
  }
  a = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(d, e));
  c->sink = (float)_mm512_reduce_add_epi64(a);
}
#endif

static void read_64(void *v) {
  ceiling *c = v;
  uint64_t sum[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < c->bytes; i += 32) {
    uint64_t x[4];
    memcpy(x, c->data + i, 32);
    for (int j = 0; j < 4; j++) sum[j] ^= x[j];
  }
  c->sink = (float)(sum[0] ^ sum[1] ^ sum[2] ^ sum[3]);
}

double fma_peak(const char *set) {
  ceiling c = {.loops = 400000};
#ifdef __x86_64__
  if (strcmp(set, "avx512") == 0)
    return (double)c.loops * 12 * 32 / best_of(peak_512, &c) * 1e-9;
  if (strcmp(set, "avx2") == 0)
    return (double)c.loops * 12 * 16 / best_of(peak_256, &c) * 1e-9;
#endif
  return 0;
}

double read_bandwidth(const char *set, const void *data, size_t bytes) {
  ceiling c = {.data = data, .bytes = bytes};
  double best = best_of(read_64, &c);
#ifdef __x86_64__
  if (strcmp(set, "avx512") == 0) {
    double t = best_of(read_512, &c);
    if (t < best) best = t;
  }
#endif
  return (double)bytes / best * 1e-9;
}
