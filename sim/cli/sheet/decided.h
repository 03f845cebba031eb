/* SPDX-License-Identifier: Apache-2.0
 *
 * What one cell decided in each lane, gathered while it is replayed: whether
 * entries were coded anew, and a hash of all verbs and views. Unlike the
 * journal's digest it is one of a lane and names no lane or layer, so that the
 * same KV head can be compared between two replays in which it has another
 * number (sim/cli/sheet/beside.h). What a lane holds when decoding begins, and
 * what it decides from there on, is told apart: prompts may have come in other
 * pieces (sim/cli/sheet/beside.h). kv_decided_open; replay with
 * kv_decided_watch; ask; kv_decided_close Used by the engine sheet and by
 * `kvreplay run --tp` and
 * `--chunk`. Memory: 150 bytes a lane, and a bit a token of each. Works on any
 * backend that keeps records, those without digests too.
 */
#ifndef KV_SIM_DECIDED_H
#define KV_SIM_DECIDED_H

#include "sim/replay/engine/layer.h"

typedef struct kv_decided kv_decided;

/* Opens it for an open cell, which outlives it, before the replay. KV_RESOURCE:
 * memory; *out is then NULL. */
kv_rc kv_decided_open(const kv_cell *c, kv_decided **out, kv_err *e);
void kv_decided_close(kv_decided *d); /* accepts NULL */
/* The watch for the replay, which calls it for this cell alone, from any
 * thread. The caller sets its `next`; it lives as long as d. */
kv_watch *kv_decided_watch(kv_decided *d);

/* After the replay: did any lane code entries anew? */
bool kv_decided_recodes(const kv_decided *d);

/* How many lanes of `part` decided anything else than lanes first.. of the same
 * layer of `whole`, after both replays of the same layers. Asserts that `whole`
 * has these lanes. */
int kv_decided_unlike(const kv_decided *whole, int first,
                      const kv_decided *part);
/* How many lanes, of the same numbers, hold other tokens when decoding begins,
 * in other classes, or decide anything else after that. `other` is of the same
 * layers, lanes and first decode step; asserts that it has these layers. */
int kv_decided_unlike_decoding(const kv_decided *whole,
                               const kv_decided *other);
/* Of the entries that `whole` holds when decoding begins, percent whose tokens
 * `other` holds as entries as well. Asserts as above. */
double kv_decided_shared(const kv_decided *whole, const kv_decided *other);
/* Bytes that lanes first..first+count-1 of all layers held after the last step,
 * everything counted. Asserts that there are these lanes. */
int64_t kv_decided_bytes(const kv_decided *d, int first, int count);
/* Lanes of all layers together. */
int kv_decided_lanes(const kv_decided *d);

#endif
