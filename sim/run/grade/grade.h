/* SPDX-License-Identifier: Apache-2.0
 *
 * Grades the decisions of another kernel ("theirs"): replays a method and
 * compares each of its views and compressions ("ours") with theirs
 * (sim/run/grade/judge.h). Then it continues with theirs, so that one tie or
 * fault does not make everything after it look wrong. The method is not
 * changed: the cell's plan gets a copy of its table whose hooks call the
 * method's.
 *
 * A decision is a query head's view at a decode step, if the file has views, or
 * a lane's compression, if the file has what lanes store: each due compression,
 * and each step for which the file has a list. If the file has only one kind,
 * the other follows the reference.
 *
 * Their decision is followed if possible: not if the list is empty, names
 * tokens that are not live, names one twice, or stores another number of
 * entries than the method, which relies on the number (unless lanes share a
 * budget or a mass decides it).
 *
 * Open the grading on a cell that is open and not yet replayed. Replay it with
 * the reference on one thread and the grading's watch, read the results, close.
 * Cost: the replay, and a list of tokens for each decision.
 */
#ifndef KV_SIM_GRADE_H
#define KV_SIM_GRADE_H

#include "sim/replay/engine/layer.h"
#include "sim/run/grade/judge.h"
#include "sim/run/grade/outputs.h"
#include "sim/run/grade/wrongs.h"
#include "traces/decisions/decisions.h"

/* What to grade, and how; file and outputs are borrowed. */
typedef struct kv_grade_how {
  const kv_decisions_file *theirs; /* from kv_decisions_open, for this trace;
                                      or one without lists, and only outputs
                                      are compared, of any method */
  kv_outputs *outputs; /* their outputs, compared row by row; or NULL */
  bool follow_ours;    /* the replay continues with ours, not with theirs */
  bool all;            /* keep every wrong decision, not only the first */
  double tie;          /* share of the cut within which two scores are a tie
                          (sim/run/grade/judge.h); >= 0 */
} kv_grade_how;

/* What was found in one layer. */
typedef struct kv_graded_layer {
  int layer;                /* the model's number */
  int64_t count[KV_GRADES]; /* decisions by kv_grade */
  kv_judged first;          /* the first wrong decision, if there is one */
  /* The smallest --tie with which all differing decisions of the layer are
   * ties. It leaves out never_ties of them, which no --tie makes ties because
   * they do not differ by scores near a cut. */
  double least_tie;
  int64_t never_ties;
  kv_wrongs wrong; /* filled if how->all */
} kv_graded_layer;

typedef struct kv_grading kv_grading;

/* Wraps the method in the plan of c, which is open and not yet replayed. Cell,
 * file and outputs outlive the grading. KV_REFUSED: a decisions file cannot
 * describe what the method does, or the file has lists for other lanes, or
 * other prompt blocks, than the method. KV_RESOURCE: memory. */
kv_rc kv_grading_open(kv_cell *c, const kv_grade_how *how, kv_grading **out,
                      kv_err *e);
void kv_grading_close(kv_grading *g); /* accepts NULL */

/* The watch for the replay; lives as long as g. */
const kv_watch *kv_grading_watch(kv_grading *g);

/* After the replay: the results, [trace->n_layers], valid as long as g.
 * KV_REFUSED: the method changed memory in a way that cannot be graded, or
 * there was nothing to grade. KV_RESOURCE: memory ran out meanwhile. */
kv_rc kv_grading_layers(const kv_grading *g, const kv_graded_layer **out,
                        kv_err *e);

#endif
