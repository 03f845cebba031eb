/* SPDX-License-Identifier: Apache-2.0
 *
 * Grading decisions that somebody else's kernel made: a replay of a method in
 * which each view and each settling is compared with theirs (sim/judge.h),
 * and theirs then takes its place, so that one tie, or one fault, does not
 * make everything after it look wrong. The method is not changed and does not
 * know: a copy of its table, with hooks that call its own, stands in the
 * cell's plan.
 *
 * A decision is a query head's view at a decode step, where the file has
 * views, and a lane's settling, where the file has what lanes store: each due
 * one, and each step for which the file has a list. What stands in one kind
 * only is followed by the reference in the other.
 *
 * Theirs is followed where it can be: a list that is empty, names what is not
 * live or anything twice is not, nor one that stores another number of
 * entries than the method, which counts on it (unless lanes share a budget).
 */
#ifndef KV_SIM_GRADE_H
#define KV_SIM_GRADE_H

#include "sim/judge.h"
#include "sim/layer.h"
#include "sim/outputs.h"

typedef struct kv_grade_how {
  const kv_decisions_file *theirs; /* kv_decisions_read */
  kv_outputs *outputs;             /* or NULL */
  bool follow_ours;
  double tie; /* a share of the cut */
} kv_grade_how;

typedef struct kv_graded_layer {
  int layer; /* the model's number */
  int64_t count[KV_GRADES];
  kv_judged first; /* wrong; where count says that there is one */
} kv_graded_layer;

typedef struct kv_grading kv_grading;

/* Takes over the cell's plan, which has not been replayed. Everything named
 * outlives the grading. KV_REFUSED where decisions cannot say what the method
 * does, or the file has lists of other lanes than it stores. */
kv_rc kv_grading_open(kv_cell *c, const kv_grade_how *how, kv_grading **out,
                      kv_err *e);
void kv_grading_close(kv_grading *g); /* accepts NULL */

/* To be handed to the replay: one thread, the reference. */
const kv_watch *kv_grading_watch(kv_grading *g);

/* After the replay: [trace->n_layers]. KV_REFUSED where the method changed
 * memory in a way that cannot be graded, or nothing was there to grade. */
kv_rc kv_grading_layers(const kv_grading *g, const kv_graded_layer **out,
                        kv_err *e);

#endif
