/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to sim/measure/stat.c and tally.c, the two ways to aggregate values
 * (kv_stat_of, in memory; kv_tally, in passes): what both compute alike, so
 * that they give the same bits.
 */
#ifndef KV_SIM_STAT_PART_H
#define KV_SIM_STAT_PART_H

#include "sim/measure/measure.h"

/* Index of the percentile by nearest rank among n > 0 values in ascending
 * order: ceil(percent * n / 100) - 1, percent 1..100. */
static inline int64_t kv_rank_of(int64_t n, int64_t percent) {
  return (n * percent + 99) / 100 - 1;
}

/* x * x, rounded once; the build forbids that a sum absorbs it. */
static inline double kv_square(double x) { return x * x; }

#endif
