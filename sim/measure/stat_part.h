/* SPDX-License-Identifier: Apache-2.0
 *
 * What both ways to aggregate, stat.c in memory and tally.c in passes, share:
 * they give the same bits. For nobody else.
 */
#ifndef KV_SIM_STAT_PART_H
#define KV_SIM_STAT_PART_H

#include "sim/measure/measure.h"

/* Place of the nearest rank: ceil(percent * n / 100) - 1. */
static inline int64_t kv_rank_of(int64_t n, int64_t percent) {
  return (n * percent + 99) / 100 - 1;
}

static inline double kv_square(double x) { return x * x; }

#endif
