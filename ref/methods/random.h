/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of random, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_RANDOM_H
#define KV_REF_METHODS_RANDOM_H

#include "ref/lane/params.h"

enum { DROP, PREFILL }; /* variant */

#define PARAMS(P)                                                              \
  P(BUDGET, "tokens left after a compression; must be given")                  \
  P(INT, recent, NULL, 0, 1 << 30, "tokens",                                   \
    "last tokens, always kept; default min(32, max(1, budget div 2)), the "    \
    "window of SnapKV")                                                        \
  P(INT, seed, "1", 0, INT32_MAX, NULL, "number of the draw; 1 is ours")       \
  P(CHOICE, variant, "drop", "drop|prefill",                                   \
    "drop: after every step, ours; prefill: once after the prompt, as in "     \
    "kvpress")
KV_PARAMS(PARAMS);

#endif
