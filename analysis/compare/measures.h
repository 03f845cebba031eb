/* SPDX-License-Identifier: Apache-2.0
 *
 * The measures by which methods are compared and ranked: those of attention
 * from the list in sim/replay/measure/measure.h, a model's answers, and bytes
 * held and read.
 */
#ifndef KV_ANALYSIS_COMPARE_MEASURES_H
#define KV_ANALYSIS_COMPARE_MEASURES_H

#include <stdbool.h>

typedef struct kv_compared {
  const char *name;  /* as after --measure */
  const char *value; /* SQL over a row of the view `cell`; for evaluations the
                        name of a number after "open." */
  bool answered; /* about a model's answers (`kvreplay evaluate`); only the name
                    is used */
  int better;    /* 1: more is better, -1: less is better */
  bool size;     /* use its absolute value, in each row */
  bool marked;   /* only for traces whose answer is marked */
  const char *what; /* a phrase, with its unit, for `kvreport compare`; "": not
                       offered there */
  bool points;      /* a share from 0 to 1, so that 5 points are a margin */
} kv_compared;

/* First the answers, then the others. Ends with name NULL. */
extern const kv_compared kv_compared_all[];
/* Measure number i of `kvreport compare`; past the last, name is NULL. */
const kv_compared *kv_compared_at(int i);
/* The measure of that name, which must exist (asserted). */
const kv_compared *kv_compared_named(const char *name);

#endif
