/* SPDX-License-Identifier: Apache-2.0
 *
 * The benchmark of the kernels on a device: what its themes share. All themes
 * first check the kernels that they time, on a smaller size, bit for bit
 * against plain loops on the host or the reference; then they time them. The
 * themes' own device memory comes from bench_take and is freed by bench_give at
 * the end of each check and each timing. Any failure ends the program with one
 * sentence, except in a replay (device_replay.cuh).
 *
 * With KV_BENCH_CHECK_ONLY the same files are C++ for the executor: the checks
 * run, and with --quick the timing of theme replay, which needs no device
 * clock; nothing else is timed.
 */
#ifndef KV_TESTS_BENCH_DEVICE_CUH
#define KV_TESTS_BENCH_DEVICE_CUH

#include "gpu/block/launch.h"
#include "gpu/module/kernels.h"
#include "gpu/shared/device.h"
#include "ref/ground/formula.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BENCH_TAKEN = 1 << 16, WARM_UPS = 3, REPEATS = 21 };

typedef struct bench {
  const kv_device *dev;
  FILE *csv;
  bool quick;        /* small data, no verdicts */
  bool phases;       /* lines of theme replay by method and phase */
  double copy, read; /* ceilings of this run, GB/s */
  size_t l2;         /* bytes */
  int sms;           /* multiprocessors */
  double clock;      /* Hz, at most */
  void *taken[BENCH_TAKEN];
  int n_taken;
} bench;

typedef struct theme {
  const char *name;
  void (*check)(bench *b);
  void (*time)(bench *b);
} theme;

/* What is timed: `timed`, each time after `before`, which keeps the device busy
 * until the start is in its queue. Each is recorded as one graph; direct:
 * started call by call. */
typedef struct lap {
  kv_gpu_sequence *before, *timed;
  void *self;
  bool direct;
} lap;

/* Median seconds of REPEATS laps after WARM_UPS: device_clock.cuh. */
static double bench_seconds(bench *b, const lap *what);

__attribute__((format(printf, 1, 2), noreturn)) static void
bench_fail(const char *format, ...) {
  va_list v;
  va_start(v, format);
  fputs("device: ", stderr);
  vfprintf(stderr, format, v);
  fputc('\n', stderr);
  va_end(v);
  exit(1);
}

/* --- memory ------------------------------------------------------------- */

static void bench_fine(const bench *b) {
  const char *why = b->dev->failed();
  if (why) bench_fail("%s", why);
}

/* n zeroed elements on the device. */
template <class T> static T *bench_take(bench *b, size_t n) {
  if (b->n_taken == BENCH_TAKEN) bench_fail("too many arrays");
  void *p = b->dev->take((n ? n : 1) * sizeof(T));
  bench_fine(b);
  if (!p) bench_fail("no memory for %zu bytes", n * sizeof(T));
  b->taken[b->n_taken++] = p;
  return (T *)p;
}

static void bench_give(bench *b) {
  while (b->n_taken) b->dev->give(b->taken[--b->n_taken]);
  bench_fine(b);
}

/* n zeroed elements of the host, for free(). */
template <class T> static T *bench_room(size_t n) {
  void *p = calloc(n ? n : 1, sizeof(T));
  if (!p) bench_fail("no memory for %zu bytes on the host", n * sizeof(T));
  return (T *)p;
}

/* A copy of n elements of the device, for free(). */
template <class T> static T *bench_get(bench *b, const T *from, size_t n) {
  T *to = bench_room<T>(n);
  b->dev->get(to, from, n * sizeof(T));
  bench_fine(b);
  return to;
}

/* Ends the program if the device's bytes are not the host's. */
static void bench_same(const char *what, const void *device, const void *host,
                       size_t bytes) {
  const char *x = (const char *)device, *y = (const char *)host;
  for (size_t i = 0; i < bytes; i++)
    if (x[i] != y[i])
      bench_fail("%s: byte %zu of %zu differs from the host's", what, i, bytes);
}

/* --- numbers ------------------------------------------------------------ */

/* Number i of a sequence: a multiple of 2^-9 in [-2, 2), exact in fp16. */
KV_FN float bench_noise(uint64_t seed, size_t i) {
  uint64_t x = kv_mix(seed << 40 ^ (uint64_t)i);
  return (float)((int)(x >> 53) - 1024) * 0x1p-9f;
}

static __global__ void noise_f16(uint16_t *to, size_t n, uint64_t seed) {
  size_t step = (size_t)gridDim.x * KV_BLOCK;
  for (size_t i = (size_t)blockIdx.x * KV_BLOCK + threadIdx.x; i < n; i += step)
    to[i] = kv_to_f16(bench_noise(seed, i));
}

static __global__ void noise_f32(float *to, size_t n, uint64_t seed) {
  size_t step = (size_t)gridDim.x * KV_BLOCK;
  for (size_t i = (size_t)blockIdx.x * KV_BLOCK + threadIdx.x; i < n; i += step)
    to[i] = bench_noise(seed, i);
}

/* Blocks that keep every multiprocessor busy with n elements. */
static unsigned bench_grid(size_t n) {
  size_t blocks = (n + KV_BLOCK - 1) / KV_BLOCK;
  return (unsigned)(blocks < 4096 ? blocks : 4096);
}

#endif
