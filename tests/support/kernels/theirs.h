/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up kernels of third parties, for tests of `kvreplay grade`: quest, h2o
 * and snapkv in plain loops and binary64, optionally with scores rounded to
 * bf16, and with one fault at one step of one head or lane. They write
 * decisions and outputs as such a kernel's author would. Any failure fails the
 * running test.
 */
#ifndef KV_TESTS_THEIRS_H
#define KV_TESTS_THEIRS_H

#include "traces/trace/trace.h"

#include <stdbool.h>

typedef enum theirs_fault {
  RIGHT,
  /* quest: */
  SHIFTED,   /* a page is the one after it */
  UNFORCED,  /* the last page is not forced, but ranked */
  STALE,     /* boxes without the last token of each page */
  MAPPED,    /* keys of another KV head */
  SWAPPED,   /* the lowest ranks instead of the highest */
  GROUP_MAX, /* the group's best bound instead of the sum */
  MORE,      /* a page, or a token, above the budget */
  DUPLICATE, /* one page twice */
  OUTSIDE,   /* a page beyond the trace */
  FUTURE,    /* one that has not arrived */
  NEGATIVE,  /* a page before the first */
  HIDDEN,    /* the last page is missing in the denominator */
  SCALED,    /* logits 2 % too large */
  /* h2o: */
  WINDOW, /* the window is one token short */
  BACK    /* a dropped token is named */
} theirs_fault;

typedef struct theirs {
  const kv_trace *trace;
  int budget, page; /* tokens */
  bool group;       /* quest: query heads of a KV head choose together */
  bool bf16;        /* scores */
  bool permuted;    /* lists in no order */
  kv_dtype output;  /* of the outputs, and of the weights of values */
  bool base2;       /* the LSE is to base 2 */
  theirs_fault fault;
  int layer, step, head; /* where the fault is: the model's layer, tokens seen,
                            query head (of a stored list: the lane) */
} theirs;

/* Writes files at these paths; outputs may be NULL: none. True if the fault
 * changed a decision or an output; snapkv has no fault. */
bool theirs_quest(const theirs *t, const char *decisions, const char *outputs);
bool theirs_h2o(const theirs *t, const char *decisions);
bool theirs_snapkv(const theirs *t, const char *decisions);

#endif
