/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of oracle_topk, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_ORACLE_TOPK_H
#define KV_REF_METHODS_ORACLE_TOPK_H

#include "ref/lane/params.h"

#define PARAMS(P)                                                              \
  P(BUDGET,                                                                    \
    "tokens attended per query head, current one included; must be given")
KV_PARAMS(PARAMS);

#endif
