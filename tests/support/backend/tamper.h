/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend that tampers with one thing at one place, for tests of
 * sim/compare/compare.h: its hooks, comparing it with the reference over a
 * small trace, and what must be said of it. cmocka fails the test where it is
 * not. Linked into each test program that uses it, and reset by set_odd.
 */
#ifndef KV_TESTS_TAMPER_H
#define KV_TESTS_TAMPER_H

#include "ref/backend/store.h"
#include "sim/compare/compare.h"

enum { TOKENS = 96, PROMPT = 64, LAYERS = 3, LAYER = 1, LANE = 1, HEAD = 2 };

#define KIVI "kivi:group=8:residual=16"
#define ZSMERGE "zsmerge:residual=3:proximity=4"

extern kv_backend odd;
/* Called at step at_step of layer LAYER and lane LANE: after the lane
 * compressed, or after its rows were attended. NULL: not. */
extern void (*on_lane)(kv_lane *l);
extern void (*on_row)(kv_store *s, kv_scratch *x);
extern int at_step;
extern bool only_then; /* chance: not when it is looked at again */
bool tampers_here(const kv_lane *l);
void set_odd(void); /* the reference, but for the hooks, which are NULL */

/* budget -1: none. Methods are those of tests/made/made_up.h. */
kv_rc replay(const char *method, int budget, const kv_backend *backend,
             kv_cell *cell, kv_err *e);
void compare(const char *method, int budget, kv_difference *out);

typedef struct tamper_fault {
  const char *method;
  int budget;
  void (*lane)(kv_lane *l); /* or the row */
  void (*row)(kv_store *s, kv_scratch *x);
  int step; /* where, in layer 1, lane 1 */
  const char *what;
  int head, index; /* -1: of the lane; none */
  const char *said;
} tamper_fault;

void must_name(const tamper_fault *f);

/* Set-up and tear-down of the group: the trace. */
int open_trace(void **state);
int close_trace(void **state);

#endif
