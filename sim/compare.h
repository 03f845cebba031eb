/* SPDX-License-Identifier: Apache-2.0
 *
 * Where two backends part. Digests say that a cell differs; this walks the
 * first layer whose digests differ with both backends side by side, makes the
 * calls of sim/layer.c in their order, looks at what each step left - views,
 * outputs, verbs, lanes, bytes, in the order in which they come about - and
 * stops at the first difference. What a step hides (an entry that differed and
 * was dropped by the same settling) is found by halving: digests of prefixes.
 * Where digests agree and the ledgers do not, every layer is walked for bytes.
 *
 * Costs two replays of one layer, and for what is hidden log2(steps) more, or
 * two of every layer for bytes; only for cells that differ. All calls come from
 * the calling thread.
 */
#ifndef KV_SIM_COMPARE_H
#define KV_SIM_COMPARE_H

#include "sim/cell.h"

enum { KV_DIFFERENCE_TEXT = 72 };

/* What differs first. `what` is a record (view, keep, merge, recode, move,
 * reclass), output or lse, something of a lane (entries, id, weight, k_format,
 * v_format, column, key, value; rewritten: a row that is gone again), journal
 * or state where only digests show it, bytes of the ledger (payload, metadata,
 * columns, side, slack of a lane; else the total that differs: bytes, codes,
 * read, peak, moved, verbs, kept ..), or failed: one of the two could not go
 * on. Numbers are -1 where they do not apply. */
typedef struct kv_difference {
  bool found, ledger; /* all digests agree: bytes do not */
  const char *what;
  int layer, step; /* the model's number; tokens seen */
  int lane, head;  /* of the layer; query head of a view, output or lse */
  int index;       /* payload word of a record, entry, element */
  char a[KV_DIFFERENCE_TEXT], b[KV_DIFFERENCE_TEXT]; /* hex; "": nothing */
  char sentence[512];
} kv_difference;

/* Two replays of one cell, finished by kv_replay, each with its backend; x
 * ran. out->found is false where all digests and the ledgers agree. `stop` (or
 * NULL) is polled every step: *stopped, and nothing was found. */
typedef struct kv_compared {
  const kv_cell *cell;
  const kv_backend *backend;
} kv_compared;
kv_rc kv_compare_cells(const kv_compared *x, const kv_compared *y,
                       bool (*stop)(void), bool *stopped, kv_difference *out,
                       kv_err *e);
/* One of the two failed: who, and why. Nothing was `found`. */
void kv_compare_failed(const kv_compared *x, const kv_compared *y,
                       kv_difference *out);

#endif
