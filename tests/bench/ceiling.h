/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock of the benchmarks, and the ceilings of this machine that they
 * compare with (arithmetic, memory), measured in the same run on one thread.
 * `set` is the name of a kernel set: portable, avx2, avx512.
 */
#ifndef KV_TESTS_BENCH_CEILING_H
#define KV_TESTS_BENCH_CEILING_H

#include <stddef.h>

/* Seconds of the fastest of several calls of work(what), after one that is not
 * counted: at least nine, and for a while. */
double best_of(void (*work)(void *), void *what);
/* The same of this thread's processor time: work that no other thread shares.
 */
double best_alone(void (*work)(void *), void *what);

/* GFLOP/s of fma (two a number) in the set's registers; 0 if the set has no
 * vector registers. */
double fma_peak(const char *set);

/* GB/s (10^9) of reading `bytes` bytes at data, a multiple of 256, in order. */
double read_bandwidth(const char *set, const void *data, size_t bytes);

#endif
