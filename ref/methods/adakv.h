/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of adakv as its open (ref/methods/adakv.c) has resolved them,
 * for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters; an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_ADAKV_H
#define KV_REF_METHODS_ADAKV_H

#include "ref/parts/grow.h"
#include "ref/parts/scorers.h"

enum { INTERPOLATE, MINIMUM }; /* safeguard */
enum { NO, YES };              /* normalise */

typedef struct params {
  int budget;         /* entries of a lane on average, window included */
  kv_score_options s; /* the scorer and its options */
  float alpha;        /* share 0 .. 1 of the budget that every head gets */
  int safeguard, normalise; /* of the enums above */
  int skip;                 /* lowest layers, which share equally */
  float threshold;          /* entries that score less go; NaN: none do */
  kv_grow_options g;        /* grow and every alone */
} params;

#endif
