/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of keydiff: its parameters as open resolved them (what
 * each means, its range and its unit stand in the table of
 * ref/methods/keydiff.c).
 */
#ifndef KV_REF_METHODS_KEYDIFF_H
#define KV_REF_METHODS_KEYDIFF_H

#include "ref/parts/scorers.h"

typedef struct params {
  int budget, block;
  kv_score_options s;
} params;

#endif
