/* SPDX-License-Identifier: Apache-2.0
 *
 * What one request would hold, without a trace: a replay of lengths alone, for
 * methods whose stored bytes follow from lengths and parameters
 * (kv_needs.lengths). Keys and values are 4 MiB of made-up numbers over and
 * over, queries are never read (kv_backend_blind), and every number of the
 * ledger is the one that a replay of a recorded request of this shape gives, to
 * the byte.
 *
 * Layers that hold the same after the prompt go on alike, so that one of them
 * decodes for all: for a method whose lanes a prompt leaves alike, lengths are
 * all that decides from there on. tests/sim/check_lengths.c compares that with
 * a replay of every layer, for every method.
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
  const kv_budget *budget; /* NULL: none sets its knob */
  int tp;                  /* ranks that divide the KV heads */
  int threads;             /* >= 1; never change a number */
  bool each;               /* replay every layer, for the test */
  bool (*stop)(void);      /* polled; true: give up. NULL: never */
} kv_lengths;

/* Bytes of a kind that one request holds, on all ranks together. */
typedef struct kv_held {
  int64_t steady; /* after a compression, at the decode step with most */
  int64_t peak;   /* the most at any time, what a layer drops included */
} kv_held;

typedef struct kv_stored {
  kv_held all, codes;  /* everything; of it, K and V or their codes */
  double read;         /* bytes read and scanned at a decode step, a mean; NaN:
                          queries decide it (a view) */
  double attended;     /* entries that a query head attends to, likewise */
  int64_t fullest, of; /* the fullest rank's part of the bytes, fullest / of */
  char spec[256];      /* the specification written out */
} kv_stored;

/* A budget in bytes is searched for, each probe a replay of lengths.
 * KV_REFUSED, with the reason: queries decide what is stored (or, by the
 * budget, read), the method cannot run so, or no value of its knob fits the
 * budget. KV_USAGE: the specification is wrong; KV_RESOURCE: memory, or stop
 * said so. e is not NULL. */
kv_rc kv_lengths_replay(const kv_lengths *ask, kv_stored *out, kv_err *e);

/* Bytes of dense K and V of one request with t tokens, in the model's type, of
 * the layers as far as their windows reach. */
int64_t kv_served_dense(const kv_served *m, int t);

#endif
