/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of keydiff as its open (ref/methods/keydiff.c) has resolved
 * them, for it and its CUDA twin. Defaults and sources stand in its table of
 * parameters.
 */
#ifndef KV_REF_METHODS_KEYDIFF_H
#define KV_REF_METHODS_KEYDIFF_H

#include "ref/parts/scorers.h"

typedef struct params {
  int budget;         /* entries of a lane that stay */
  int block;          /* prompt tokens that enter at once; 0: all */
  kv_score_options s; /* the scorer's options */
} params;

#endif
