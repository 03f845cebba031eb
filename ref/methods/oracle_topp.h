/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of oracle_topp: its parameters as open resolved them (what
 * each means, its range and its unit stand in the table of
 * ref/methods/oracle_topp.c).
 */
#ifndef KV_REF_METHODS_ORACLE_TOPP_H
#define KV_REF_METHODS_ORACLE_TOPP_H

#include <stdint.h>

typedef struct params {
  int32_t p;
} params;

#endif
