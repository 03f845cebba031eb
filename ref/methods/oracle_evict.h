/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of oracle_evict, shared with its CUDA twin
 * (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_ORACLE_EVICT_H
#define KV_REF_METHODS_ORACLE_EVICT_H

#include "ref/lane/params.h"

/* group: one lane for the query heads of a KV head, or one for each. */
enum { SUM, QUERY };

#define PARAMS(P)                                                              \
  P(BUDGET, "tokens left after a compression; must be given")                  \
  P(CHOICE, group, "sum", "sum|query_head",                                    \
    "sum: one choice for the query heads of a KV head, by their sum; "         \
    "query_head: each keeps its own tokens")
KV_PARAMS(PARAMS);

#endif
