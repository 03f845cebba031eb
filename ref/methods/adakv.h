/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of adakv: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/adakv.c).
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
