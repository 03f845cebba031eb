/* SPDX-License-Identifier: Apache-2.0
 *
 * What methods are compared and ranked by: the measures of attention, from the
 * list in sim/replay/measure/measure.h, what a model answered, and what is held
 * and read.
 */
#ifndef KV_ANALYSIS_COMPARE_MEASURES_H
#define KV_ANALYSIS_COMPARE_MEASURES_H

#include <stdbool.h>

typedef struct kv_compared {
  const char *name;  /* as after --measure, and in `kvreport rank` */
  const char *value; /* SQL of a row of the view `cell`, and the name of a
                        number of evaluations, behind "open." */
  bool answered;     /* of what a model answered (`kvreplay evaluate`): the name
                        alone */
  int better;        /* 1: more is better, -1: less is */
  bool size;         /* its absolute value is taken, of each row */
  bool marked;       /* it takes a trace whose answer is marked */
  bool ranked;       /* `kvreport rank` has it */
  const char *what;  /* a phrase, with its unit, for `kvreport compare`; "": it
                        does not offer it */
} kv_compared;

/* Answers, the one that ranks are sorted by first; then the others. Ends with
 * name NULL. */
extern const kv_compared kv_compared_all[];
/* The i-th that `kvreport compare` offers; past the last name is NULL. */
const kv_compared *kv_compared_at(int i);
/* The one of that name, which is asserted to be there. */
const kv_compared *kv_compared_named(const char *name);

#endif
