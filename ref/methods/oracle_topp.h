/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of oracle_topp read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_ORACLE_TOPP_H
#define KV_REF_METHODS_ORACLE_TOPP_H

#include <stdint.h>

typedef struct params {
  int32_t p;
} params;

#endif
