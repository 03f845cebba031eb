/* SPDX-License-Identifier: Apache-2.0
 *
 * What one cell decided in each lane, collected while it is replayed: whether
 * entries were coded, and a hash of all verbs and views. Unlike the journal's
 * digest it is per lane and contains no lane or layer number, so the same KV
 * head can be compared between two replays that number it differently
 * (sim/cli/sheet/beside.h). What a lane holds when decoding begins is hashed
 * separately from what it decides later, because prompts may have come in other
 * pieces. Order of calls: kv_decided_open; replay with kv_decided_watch; the
 * functions that read results; kv_decided_close. Used by the engine sheet and
 * by `kvreplay run --tp` and `--chunk`. Memory: 150 bytes per lane, and a bit
 * per token of each. Works on any backend that keeps records, also without
 * digests.
 */
#ifndef KV_SIM_DECIDED_H
#define KV_SIM_DECIDED_H

#include "sim/replay/engine/layer.h"

typedef struct kv_decided kv_decided;

/* Opens it for an open cell, which outlives it, before the replay. KV_RESOURCE:
 * memory; *out is then NULL. */
kv_rc kv_decided_open(const kv_cell *c, kv_decided **out, kv_err *e);
void kv_decided_close(kv_decided *d); /* accepts NULL */
/* The watch for the replay, which calls it for this cell only, from any thread.
 * The caller sets its `next`; valid as long as d. */
kv_watch *kv_decided_watch(kv_decided *d);

/* After the replay: did any lane code entries? */
bool kv_decided_recodes(const kv_decided *d);

/* How many lanes of `part` decided anything differently than lanes first.. of
 * the same layer of `whole`, after both replays of the same layers. Asserts
 * that `whole` has these lanes. */
int kv_decided_unlike(const kv_decided *whole, int first,
                      const kv_decided *part);
/* How many lanes hold other tokens or classes when decoding begins, or decide
 * anything differently after that. `other` has the same layers (asserted),
 * lanes and first decode step. */
int kv_decided_unlike_decoding(const kv_decided *whole,
                               const kv_decided *other);
/* Percent of the entries that `whole` holds when decoding begins whose tokens
 * `other` also holds as entries. Asserts as above. */
double kv_decided_shared(const kv_decided *whole, const kv_decided *other);
/* Bytes of all kinds that lanes first..first+count-1 of all layers held after
 * the last step. Asserts that these lanes exist. */
int64_t kv_decided_bytes(const kv_decided *d, int first, int count);
/* Lanes of all layers together. */
int kv_decided_lanes(const kv_decided *d);

#endif
