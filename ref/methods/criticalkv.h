/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of criticalkv: its parameters as open resolved them (what
 * each means, its range and its unit stand in the table of
 * ref/methods/criticalkv.c).
 */
#ifndef KV_REF_METHODS_CRITICALKV_H
#define KV_REF_METHODS_CRITICALKV_H

#include "ref/parts/scorers.h"

typedef struct params {
  int budget;
  float first, epsilon;
  kv_score_options s;
} params;

/* Of `room` candidates that stay, how many go by score alone. */
KV_FN int first_stage(const params *o, int room) {
  int k = (int)kv_mul((float)o->budget, o->first) - (o->budget - room);
  return k > 0 ? k : 0;
}

#endif
