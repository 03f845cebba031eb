/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of criticalkv as its open (ref/methods/criticalkv.c) has
 * resolved them, for it and its CUDA twin. Defaults and sources stand in its
 * table of parameters.
 */
#ifndef KV_REF_METHODS_CRITICALKV_H
#define KV_REF_METHODS_CRITICALKV_H

#include "ref/parts/scorers.h"

typedef struct params {
  int budget;         /* entries of a lane that stay */
  float first;        /* share 0 .. 1 of the budget that goes by score alone */
  float epsilon;      /* added to scores before they are weighed */
  kv_score_options s; /* the scorer and its options */
  float threshold;    /* entries that score less go; NaN: none do */
} params;

/* Of `room` candidates that stay, how many are chosen by score alone. */
KV_FN int first_stage(const params *o, int room) {
  int k = (int)kv_mul((float)o->budget, o->first) - (o->budget - room);
  return k > 0 ? k : 0;
}

#endif
