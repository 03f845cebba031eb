/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of palu.
 */
#ifndef KV_REF_METHODS_PALU_H
#define KV_REF_METHODS_PALU_H

#include "ref/parts/lowrank.h"

typedef struct params {
  kv_lowrank by;
} params;

#endif
