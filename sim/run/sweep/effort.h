/* SPDX-License-Identifier: Apache-2.0
 *
 * The processor time that a cell will take, predicted before anything is
 * replayed, so that a run can be cut into shards of equal time
 * (sim/run/sweep/cut.h). A prediction counts kinds of work, such as products of
 * logits or entries looked at when lanes are compressed. The counts follow from
 * the shape of the trace and from the method's needs, without a branch on a
 * method. Each kind has a price, measured once (sim/run/README.md).
 *
 * Integers only: the same command line gives the same prediction on every
 * machine. Nothing fails; sums saturate. Prices are those of the reference on
 * one thread. Other processors and backends are faster or slower, which does
 * not change a cut if all kinds scale alike. Used by sim/run/sweep/shares.h.
 */
#ifndef KV_SIM_EFFORT_H
#define KV_SIM_EFFORT_H

#include "sim/replay/engine/cell.h"

/* What is counted, over all layers. */
typedef enum kv_effort_kind {
  KV_EFFORT_CELL,     /* cells: opened, summed up and stored */
  KV_EFFORT_BYTE,     /* bytes of q, k and v that are read and scanned */
  KV_EFFORT_PRODUCT,  /* products of keys, values and queries */
  KV_EFFORT_EXACT,    /* tokens of exact rows, a query head */
  KV_EFFORT_LOGS,     /* the same, for rows with which views are compared */
  KV_EFFORT_ROW,      /* entries of the prompt's observation, a query head */
  KV_EFFORT_HEAD,     /* steps of a query head */
  KV_EFFORT_LANE,     /* steps of a lane, including those of prompt blocks */
  KV_EFFORT_VIEW,     /* entries attended and measured, a query head */
  KV_EFFORT_GAP,      /* tokens of exact rows that these are compared with */
  KV_EFFORT_OWN,      /* entries attended by heads with views of their own */
  KV_EFFORT_STORED,   /* entries outside such a view, a query head */
  KV_EFFORT_RANK,     /* logits that a view ranks, a query head */
  KV_EFFORT_BOUND,    /* numbers of bounds that a view reads, a query head */
  KV_EFFORT_TURN,     /* numbers of keys that are rotated */
  KV_EFFORT_SEEN,     /* entries of rows that the method observes one by one */
  KV_EFFORT_COMPRESS, /* entries of lanes that compress */
  KV_EFFORT_DECODE,   /* coded numbers that are decoded */
  KV_EFFORTS
} kv_effort_kind;

typedef struct kv_effort {
  int64_t n[KV_EFFORTS]; /* by kind */
} kv_effort;

/* Each overwrites *out. */

/* The work that a trace's cells share; prompt_len 0: the trace's own. */
void kv_effort_trace(const kv_trace *t, int prompt_len, kv_effort *out);
/* The work of an opened cell, which would run, alone. */
void kv_effort_cell(const kv_cell *c, kv_effort *out);
/* The cell's part of the work that is computed once for all cells that need it:
 * the prompt's observation, and the logarithms and ranks of exact rows unless
 * it attends as dense does. The largest part of several cells counts: it
 * includes the others. */
void kv_effort_shared(const kv_cell *c, kv_effort *out);
/* The work of one probe of a byte budget's search, with the knob as in c. */
void kv_effort_probe(const kv_cell *c, kv_basis basis, kv_effort *out);

/* Its time in microseconds, at most KV_EFFORT_MOST. */
#define KV_EFFORT_MOST (INT64_MAX >> 20)
int64_t kv_effort_cost(const kv_effort *x);

#endif
