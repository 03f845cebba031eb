/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of streamingllm, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_STREAMINGLLM_H
#define KV_REF_METHODS_STREAMINGLLM_H

#include "ref/lane/params.h"

enum { CACHE, ORIGINAL }; /* positions */
enum { DROP, PREFILL };   /* variant */

#define PARAMS(P)                                                              \
  P(BUDGET, "sink + recent; must be given")                                    \
  P(INT, sink, NULL, 0, 1 << 30, "tokens",                                     \
    "first tokens, always kept; default budget - recent if recent is given, "  \
    "else min(4, budget - 1), 4 as in the paper")                              \
  P(INT, recent, NULL, 0, 1 << 30, "tokens",                                   \
    "last tokens, always kept; default budget - sink")                         \
  P(CHOICE, positions, "cache", "cache|original",                              \
    "position of an entry: its index in the cache, as in the paper, or the "   \
    "original one")                                                            \
  P(CHOICE, variant, "drop", "drop|prefill",                                   \
    "drop: after every step, as in the paper; prefill: once after the "        \
    "prompt, as in kvpress")
KV_PARAMS(PARAMS);

#endif
