/* SPDX-License-Identifier: Apache-2.0
 *
 * The ceilings that a benchmark compares with, measured in the same run on
 * one thread, and its clock. `set` is the name of a kernel set.
 */
#ifndef KV_TESTS_BENCH_CEILING_H
#define KV_TESTS_BENCH_CEILING_H

#include <stddef.h>

/* Seconds of the fastest of several calls, after one that is not counted. */
double best_of(void (*work)(void *), void *what);
/* The same of this thread's processor time: work that no other thread shares.
 */
double best_alone(void (*work)(void *), void *what);

/* GFLOP/s of fma in the set's registers; 0 where the set has none. */
double fma_peak(const char *set);

/* GB/s of reading bytes (a multiple of 256) at data, in order. */
double read_bandwidth(const char *set, const void *data, size_t bytes);

#endif
