/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend that changes one thing at one place, for tests of
 * sim/run/compare/compare.h, which must find and name that place. Linked into
 * each test program that uses it. Any failure fails the running test.
 */
#ifndef KV_TESTS_TAMPER_H
#define KV_TESTS_TAMPER_H

#include "ref/backend/store.h"
#include "sim/run/compare/compare.h"

enum {
  TOKENS = 96,
  PROMPT = 64,
  LAYERS = 3, /* of the trace */
  LAYER = 1,
  LANE = 1,
  HEAD = 2 /* where it tampers */
};

#define KIVI "kivi:group=8:residual=16"
#define ZSMERGE "zsmerge:residual=3:proximity=4"

/* The backend: the reference, with these two functions (NULL: none) called at
 * step at_step of layer LAYER and lane LANE, after the lane was compressed and
 * after its rows were attended. */
extern kv_backend odd;
extern void (*on_lane)(kv_lane *l);
extern void (*on_row)(kv_store *s, kv_scratch *x);
extern int at_step;    /* tokens seen */
extern bool only_then; /* not in compare's second replay: a chance fault */
/* Is this that lane and step? */
bool tampers_here(const kv_lane *l);
/* Resets odd: no functions, at_step 80. Call it first. */
void set_odd(void);

/* Replays a method (one of tests/made/made_up.h) at a budget in entries (-1:
 * none) into *cell, for kv_cell_close; returns what kv_replay does. compare
 * replays it on ref and odd, and finds where they differ. */
kv_rc replay(const char *method, int budget, const kv_backend *backend,
             kv_cell *cell, kv_err *e);
void compare(const char *method, int budget, kv_difference *out);

typedef struct tamper_fault {
  const char *method;
  int budget;
  void (*lane)(kv_lane *l); /* on_lane and on_row; one is NULL */
  void (*row)(kv_store *s, kv_scratch *x);
  int step; /* at_step */
  /* What must be found: */
  const char *what; /* kv_difference.what */
  int head;         /* -1: it is the lane's */
  int index;        /* element, in which one bit differs; -1: none */
  const char *said; /* part of the sentence */
} tamper_fault;

/* Fails unless compare finds exactly this. */
void must_name(const tamper_fault *f);

/* Setup and teardown of the cmocka group: the trace, in a scratch folder. */
int open_trace(void **state);
int close_trace(void **state);

#endif
