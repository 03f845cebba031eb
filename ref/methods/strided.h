/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of strided, shared with its CUDA twin (ref/lane/params.h), and
 * the stride.
 */
#ifndef KV_REF_METHODS_STRIDED_H
#define KV_REF_METHODS_STRIDED_H

#include "ref/ground/formula.h"
#include "ref/lane/params.h"

#define PARAMS(P)                                                              \
  P(BUDGET,                                                                    \
    "tokens attended per query head, current one included; must be given")     \
  P(INT, recent, NULL, 1, 1 << 30, "tokens",                                   \
    "last tokens, all attended; default min(32, max(1, budget div 2)), as "    \
    "for random")
KV_PARAMS(PARAMS);

/* The least s for which at most budget - recent of n > budget entries are
 * before the last `recent` and at a multiple of s from the last. */
KV_FN int stride_of(const params *o, int n) {
  int most = o->budget - o->recent, s = (n - o->recent) / (most + 1) + 1;
  while ((n - 1) / s - (o->recent - 1) / s > most) s++;
  return s;
}

/* Is entry i of n among those attended? s: the stride. */
KV_FN bool strided_has(const params *o, int n, int s, int i) {
  return i >= n - o->recent || (n - 1 - i) % s == 0;
}

#endif
