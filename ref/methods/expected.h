/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of expected: its parameters as open resolved them (what
 * each means, its range and its unit stand in the table of
 * ref/methods/expected.c).
 */
#ifndef KV_REF_METHODS_EXPECTED_H
#define KV_REF_METHODS_EXPECTED_H

#include "ref/parts/scorers.h"

typedef struct params {
  int budget;
  kv_score_options s;
} params;

#endif
