/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the first difference between two backends. Digests only say that a cell
 * differs. This replays the first layer whose digests differ with both backends
 * side by side, through the calls of sim/replay/engine/order.h. After each step
 * it compares the results in the order in which they arise (scores and views,
 * outputs, scores and verbs, lanes, bytes) and stops at the first difference. A
 * difference that a step hides, such as an entry that the same compression
 * dropped again, is found by bisection over digests of prefixes of the layer.
 * If all digests agree and the ledgers do not, every layer is replayed to
 * compare bytes.
 *
 * Only for cells that differ. Costs two replays of one layer, and of the layers
 * above it if it reads their messages; for a hidden difference log2(steps)
 * more; for bytes two replays of every layer up to the one that differs.
 * Memory: two stores, and twice the scores of one step, 4 bytes each. All
 * callbacks come from the calling thread.
 */
#ifndef KV_SIM_COMPARE_H
#define KV_SIM_COMPARE_H

#include "sim/replay/engine/cell.h"

enum { KV_DIFFERENCE_TEXT = 72 }; /* bytes of a value as text */

/* The first difference. `what` is one of: score (that a selection ranked);
 * selection (made by only one of the two, or with another query head, list,
 * number of scores or rule); a record (view, keep, merge, recode, retier,
 * move); output or lse; a property of a lane (entries, id, weight, class,
 * k_format, v_format, column, key, value; rewritten: a rewritten row that was
 * dropped again); message (published by the layer for those below); journal,
 * state or scores, if only digests show it; a kind of bytes
 * (ref/lane/ledger.h), of a lane; a total of the ledger (bytes, codes, read,
 * peak, moved, verbs, kept ..); failed: one of the two could not continue; in
 * `kvreplay verify` parameters, or values if all digests agree. Numbers are -1
 * if they do not apply. */
typedef struct kv_difference {
  bool found;       /* false: nothing below is valid. Exception: for a cell that
                       failed, what, layer and sentence say where */
  bool ledger;      /* all digests agree, and bytes differ */
  const char *what; /* one of the words above */
  int layer, step;  /* the model's layer number; tokens seen */
  int lane, head;   /* lane of the layer; query head of a view, output or lse */
  int index; /* which word of a record, entry, element, score or byte, from 0 */
  char a[KV_DIFFERENCE_TEXT]; /* the first backend's value, hex; "": none */
  char b[KV_DIFFERENCE_TEXT]; /* the second's */
  char sentence[512];         /* all of it, for people */
} kv_difference;

/* One of the two: a cell that kv_replay has finished with a backend. */
typedef struct kv_compared {
  const kv_cell *cell;
  const kv_backend *backend;
} kv_compared;
/* Compares two replays of the same cell. x ran; y may have failed, which is a
 * difference. out->found is false if all digests and ledgers agree. stop (or
 * NULL) is polled every step; *stopped: it returned true, and *out is
 * undefined. KV_INPUT: the trace has changed. KV_RESOURCE: memory. */
kv_rc kv_compare_cells(const kv_compared *x, const kv_compared *y,
                       bool (*stop)(void), bool *stopped, kv_difference *out,
                       kv_err *e);
/* Describes, in out->sentence, a cell that failed on one or both sides: which,
 * and why. out->found is false. */
void kv_compare_failed(const kv_compared *x, const kv_compared *y,
                       kv_difference *out);

#endif
