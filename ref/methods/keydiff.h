/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of keydiff read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_KEYDIFF_H
#define KV_REF_METHODS_KEYDIFF_H

#include "ref/parts/scorers.h"

typedef struct params {
  int budget, block;
  kv_score_options s;
} params;

#endif
