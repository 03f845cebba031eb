/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of oracle_topp as its open (ref/methods/oracle_topp.c) has
 * resolved them, for it and its CUDA twin. Defaults and sources stand in its
 * table of parameters.
 */
#ifndef KV_REF_METHODS_ORACLE_TOPP_H
#define KV_REF_METHODS_ORACLE_TOPP_H

#include <stdint.h>

typedef struct params {
  int32_t p; /* share of the probability that is attended, times 2^20 */
} params;

#endif
