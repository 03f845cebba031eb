/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of h2o, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_H2O_H
#define KV_REF_METHODS_H2O_H

#include "ref/lane/params.h"

enum { DROP, MASKED, PREFILL }; /* variant */
enum { NONE, SEEN };            /* scale */

#define PARAMS(P)                                                              \
  P(BUDGET, "heavy + recent; must be given")                                   \
  P(INT, recent, NULL, 0, 1 << 30, "tokens",                                   \
    "last tokens, always kept; default budget div 2, the paper's halves")      \
  P(CHOICE, variant, "drop", "drop|masked|prefill",                            \
    "drop: the authors' real-drop code; masked: their simulator; prefill: "    \
    "once, as in KVCache-Factory")                                             \
  P(CHOICE, group, "sum", "mean|max|sum|query_head",                           \
    "how the query heads of a KV head are combined; sum extends the authors' " \
    "code; max with variant=prefill only")                                     \
  P(CHOICE, scale, "none", "none|seen",                                        \
    "none: sums, as in the paper; seen: each sum divided by the rows that "    \
    "saw the token, as in kvpress; not with variant=masked")
KV_PARAMS(PARAMS);

#endif
