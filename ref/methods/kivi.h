/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of kivi read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_KIVI_H
#define KV_REF_METHODS_KIVI_H

#include "ref/lane.h"

enum { AUTO, PAPER, CODE };                      /* variant */
enum { KEYS = KV_CODED, VALUES = KV_CODED + 1 }; /* formats */

typedef struct params {
  int bits, k_bits, v_bits, group, residual, variant;
} params;

#endif
