/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of oracle_topp, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_ORACLE_TOPP_H
#define KV_REF_METHODS_ORACLE_TOPP_H

#include "ref/lane/params.h"

#include <stdint.h>

#define PARAMS(P)                                                              \
  P(SHARE, p, "0.95", 0, 1,                                                    \
    "least mass of the attended tokens, rounded to a multiple of 2^-20; 0.95 " \
    "is this project's choice, papers use 0.6 to 0.98",                        \
    .unit = "share of the probability", .knob = KV_KNOB_MORE, .grid = 0.001)
KV_PARAMS(PARAMS);

#endif
