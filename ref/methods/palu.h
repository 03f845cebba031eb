/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of palu: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/palu.c).
 */
#ifndef KV_REF_METHODS_PALU_H
#define KV_REF_METHODS_PALU_H

#include "ref/parts/lowrank.h"

typedef struct params {
  kv_lowrank by;
} params;

#endif
