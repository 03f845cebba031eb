/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of expected read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_EXPECTED_H
#define KV_REF_METHODS_EXPECTED_H

#include "ref/parts/scorers.h"

typedef struct params {
  int budget;
  kv_score_options s;
} params;

#endif
