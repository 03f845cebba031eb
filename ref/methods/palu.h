/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of palu as its open (ref/methods/palu.c) has resolved them,
 * for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters.
 */
#ifndef KV_REF_METHODS_PALU_H
#define KV_REF_METHODS_PALU_H

#include "ref/parts/lowrank.h"

typedef struct params {
  kv_lowrank by; /* all of them */
} params;

#endif
