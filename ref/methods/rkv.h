/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of rkv as its open (ref/methods/rkv.c) has resolved them, for
 * it and its CUDA twin. Defaults and sources stand in its table of parameters;
 * an enum has the values of the parameter named beside it.
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
  int budget;      /* entries of a lane that stay, window included */
  int window;      /* last queries that vote, whose tokens stay */
  int kernel;      /* width of the max pooling in entries, odd */
  int every;       /* decode steps between compressions */
  float lambda;    /* share 0 .. 1 of importance in the score */
  float threshold; /* cosine above which keys are alike */
  int redundancy, fallback, slots, group, trigger; /* of the enums above */
} params;

#endif
