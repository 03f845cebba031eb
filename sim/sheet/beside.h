/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells beside those of a replay: the same methods and budgets once more under
 * other circumstances, on the ranks of tensor parallelism or with a prompt in
 * pieces, with what they decide (sim/sheet/decided.h) to be held against it.
 *   kv_beside_open; kv_beside_add what kv_cell_open made of some;
 * kv_beside_run; ask decided[i] and cell[i]; kv_beside_close Used by
 * sim/sheet/ranks.c and chunks.c. Cost: a replay, of bytes alone.
 */
#ifndef KV_SIM_BESIDE_H
#define KV_SIM_BESIDE_H

#include "sim/engine/replay.h"
#include "sim/sheet/decided.h"

enum {
  KV_WHY = 256
}; /* bytes of a sentence that says why there is no answer */

typedef struct kv_beside {
  int n;
  kv_cell *cell;        /* [n] to open; zeroed: not asked */
  kv_decided **decided; /* [n] what each decides; NULL: it does not run */
  kv_cell **each;       /* [n] those that run, .. */
  int cells;            /* .. so many of them */
} kv_beside;

/* KV_RESOURCE: memory. Close it also then. */
kv_rc kv_beside_open(int n, kv_beside *b, kv_err *e);
/* Opens b->cell[i] of trace t with a prompt of so many tokens for the same
 * specification as `whole`, resolved as it is there, and without its budget. A
 * cell that cannot run is no failure: why[KV_WHY] says it. Codes of
 * kv_cell_open. */
kv_rc kv_beside_add(const kv_trace *t, int prompt_len, const kv_cell *whole,
                    int i, kv_beside *b, char *why, kv_err *e);
/* Replays what was added, as `how` says but without fidelity, files and
 * progress; `how->watch` is not called. Once. *stopped, codes: as kv_replay. A
 * cell that failed has its reason in its result. */
kv_rc kv_beside_run(const kv_trace *t, kv_beside *b, const kv_replay_how *how,
                    bool *stopped, kv_err *e);
void kv_beside_close(kv_beside *b); /* accepts zeroed */

/* why[KV_WHY] becomes the sentence, cut to fit. */
void kv_beside_say(const char *sentence, char *why);

#endif
