/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of adakv read: its parameters, resolved.
 */
#ifndef KV_REF_METHODS_ADAKV_H
#define KV_REF_METHODS_ADAKV_H

#include "ref/parts/grow.h"
#include "ref/parts/scorers.h"

enum { INTERPOLATE, MINIMUM }; /* safeguard */
enum { NO, YES };              /* normalise */

typedef struct params {
  int budget;
  kv_score_options s;
  float alpha;
  int safeguard, normalise, skip;
  kv_grow_options g; /* grow and every alone */
} params;

#endif
