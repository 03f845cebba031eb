/* SPDX-License-Identifier: Apache-2.0
 *
 * What one request would hold, without a trace: a replay of lengths alone, for
 * methods whose stored bytes follow from lengths and parameters
 * (kv_needs.lengths). Keys and values are 4 MiB of made-up numbers, repeated;
 * queries are never read (kv_backend_blind). Every number of the ledger equals
 * that of a replay of a recorded request of this shape, to the byte.
 *
 * Layers that hold the same after the prompt continue alike, so one of them
 * decodes for all: if a prompt leaves a method's lanes alike, only lengths
 * decide from there on. tests/sim/check_lengths.c compares this with a replay
 * of every layer, for every method.
 */
#ifndef KV_SIM_CAPACITY_LENGTHS_H
#define KV_SIM_CAPACITY_LENGTHS_H

#include "sim/ask/budget.h"
#include "sim/ask/spec.h"
#include "sim/cli/capacity/model.h"

/* What to replay; all of it is borrowed for the call. */
typedef struct kv_lengths {
  const kv_served *model;
  int context, output;     /* tokens of the prompt; decoded after it, >= 1 */
  const kv_spec *spec;     /* the method */
  const kv_budget *budget; /* NULL: the method's own knob */
  int tp;                  /* ranks that divide the KV heads */
  int threads;             /* >= 1; never change a number */
  bool each;               /* replay every layer, for the test */
  bool (*stop)(void);      /* polled; true: give up. NULL: never */
} kv_lengths;

/* Bytes that one request holds, on all ranks together. */
typedef struct kv_held {
  int64_t steady; /* after a compression, at the decode step with most */
  int64_t peak;   /* the most at any time, also before a layer drops */
} kv_held;

typedef struct kv_stored {
  kv_held all, codes; /* everything; only K and V or their codes */
  double read;     /* mean bytes read and scanned at a decode step; NaN: queries
                      decide it (a view) */
  double attended; /* mean entries that a query head attends to, or NaN */
  int64_t fullest, of; /* the fullest rank holds fullest / of of the bytes */
  char spec[256];      /* the specification written out */
} kv_stored;

/* Replays the request. A budget in bytes is searched for; each probe is a
 * replay of lengths. KV_REFUSED, with the reason: queries decide what is stored
 * (or, for this budget, read), the method cannot run on this model, or no value
 * of its knob fits the budget. KV_USAGE: the specification is wrong.
 * KV_RESOURCE: memory, or stop returned true. e must not be NULL. */
kv_rc kv_lengths_replay(const kv_lengths *ask, kv_stored *out, kv_err *e);

/* Bytes of dense K and V of one request with t tokens, in the model's type.
 * Layers with a window count only what it covers. */
int64_t kv_served_dense(const kv_served *m, int t);

#endif
