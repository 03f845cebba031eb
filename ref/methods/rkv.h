/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of rkv: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/rkv.c).
 */
#ifndef KV_REF_METHODS_RKV_H
#define KV_REF_METHODS_RKV_H

#include "ref/lane/method.h"

enum { CODE, PAPER };          /* redundancy */
enum { INDEX0, NONE };         /* fallback */
enum { BY_SCORE, BY_PLACE };   /* slots */
enum { MAX_LOGIT, MEAN_PROB }; /* group */
enum { FROM_PROMPT, GLOBAL };  /* trigger */

typedef struct params {
  int budget, window, kernel, every;
  float lambda, threshold;
  int redundancy, fallback, slots, group, trigger;
} params;

#endif
