/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger of one cell: bytes that its stores held, read and rewrote, and
 * entries kept. It is fed block by block during a replay; kv_cost_finish sums
 * it up.
 *
 * Blocks are numbered in the order in which they enter. Blocks 0..blocks-1 are
 * the prompt's; the last of them ends at prompt_len tokens seen. Block
 * blocks-1+i is the i-th decode step. Sums and means over t, tokens seen, run
 * from prompt_len to n_tokens and count bytes after compression. Only the peak
 * also includes the earlier prompt blocks:
 *   peak = max over t of (sum of compressed(l) + max over l of
 *                         (made(l) + before(l) - compressed(l)))
 * Layers compress one after another, so at most one layer at a time holds what
 * it will drop. Before it compresses, a layer attends. During that time it
 * holds the rows of K and V, made(l), that it decodes from blocks of whole
 * tokens (layered codings), in the trace's own type; no other number contains
 * them. If a group of layers holds such rows together, they exist until its
 * last layer has attended: the maximum is then over groups, of the sum of
 * made(l) over the group plus its largest before(l) - compressed(l). For t in
 * the prompt, its end included, the queries are added that all layers keep for
 * later chunks (kv_cost_take_queries).
 *
 * Everything fed is an integer that is added or maximised, so the result does
 * not depend on the order: layer by layer, step by step, from any thread. Open
 * allocates everything except the row: for a block 8 bytes a kind of bytes and
 * 56 more, whatever the number of layers (with layers kept apart, as much for
 * each layer), and 4 bytes a lane.
 */
#ifndef KV_SIM_COST_H
#define KV_SIM_COST_H

#include "ref/backend/backend.h"
#include "sim/replay/measure/copier.h"
#include "sim/replay/measure/result.h"

typedef struct kv_cost kv_cost;

/* Below, `layer` is a layer's index among the recorded ones, `block` as above;
 * both must exist (asserted). */

/* Opens a ledger with nothing fed. layers: recorded ones; lanes: of a layer;
 * blocks >= 1 (asserted): of the prompt. apart: keep each layer's counters
 * apart, so that they can be written, read and cleared one layer at a time.
 * shape outlives *out. KV_RESOURCE: memory; *out is then NULL. */
kv_rc kv_cost_open(const kv_shape *shape, int layers, int lanes, int blocks,
                   bool apart, kv_cost **out, kv_err *e);
void kv_cost_close(kv_cost *c); /* accepts NULL */
/* The layers' sliding windows: window[layers], tokens that a row of that layer
 * sees, or 0: all. NULL, as after open: no layer has one. left: the method does
 * not run on layers with a window, so `kept` and `attended` of the totals leave
 * them out, unless all layers have one. Call it before anything is fed;
 * `window` must outlive the ledger. */
void kv_cost_take_windows(kv_cost *c, const int *window, bool left);

/* Groups of layers that hold a step's decoded rows together: consecutive layers
 * with the same number in group[layers], which must outlive the ledger. NULL,
 * as after open: each layer releases its own. Only for a ledger opened with
 * `apart` (asserted), before anything is fed. */
void kv_cost_take_groups(kv_cost *c, const int *group);

/* Bytes of the queries that all layers together keep while the prompt is read
 * in chunks. Only the peak counts them. 0, as after open: none. */
void kv_cost_take_queries(kv_cost *c, int64_t bytes);

/* Copies everything that `from` was fed to `to`, opened with the same numbers
 * (asserted). Nobody may feed either meanwhile. Cannot fail. */
void kv_cost_copy(const kv_cost *from, kv_cost *to);

/* Tokens of the dense cache after t tokens seen, for one KV head, summed over t
 * = first..last and over layers with these windows (as above). attended:
 * instead, tokens that a query head sees in the step. A layer with a window
 * holds min(t, window - 1) after the step, as an engine does, because the next
 * token sees no more of them. 0 if last < first. */
int64_t kv_dense_tokens(int layers, const int *window, int first, int last,
                        bool attended);

/* One layer's counters, only in a ledger opened with `apart` (asserted). begin
 * clears them, except the entries kept. copy copies all of them
 * (sim/replay/measure/copier.h), between ledgers opened alike. */
void kv_cost_layer_begin(kv_cost *c, int layer);
void kv_cost_layer_copy(kv_cost *c, int layer, kv_copier *x);

/* Bytes of one layer, all lanes together, before and after compression at the
 * end of a block (equal if no compression was due). materialised: bytes of rows
 * that its decode step decoded and released before compression. Call it once
 * per layer and block. */
void kv_cost_held(kv_cost *c, int layer, int block, const kv_bytes *before,
                  int64_t materialised, const kv_bytes *compressed);

/* The cost of one lane at a decode step, in bytes except `attended`.
 * kv_cost_view computes all but `scanned`. */
typedef struct kv_cost_row {
  int64_t bytes;    /* K and V as stored. A row that several heads read counts
                       once, a coded group once if any member is read. With a
                       layered coding, also the tokens that its blocks name */
  int64_t attended; /* entries, summed over the query heads */
  int64_t scanned;  /* read to choose the view (kv_lane_scanned); 0 for a method
                       without a view */
  int64_t fetched;  /* the part of `bytes` in entries in host memory
                       (kv_needs.host) */
  int64_t materialised; /* K and V, in the trace's own type, of the tokens of
                           layered codings that the step reads and so decodes;
                           for kv_cost_held, ignored by kv_cost_read */
} kv_cost_row;
/* Adds such a row, of any lane of the layer; block: a decode step (asserted).
 */
void kv_cost_read(kv_cost *c, int layer, int block, const kv_cost_row *row);

/* Computes such a row from an attended one (the backend's `seen`), before
 * anything compresses. mark: kv_cost_mark_size bytes of scratch, zero before
 * the first call; each call leaves them zero. */
kv_cost_row kv_cost_view(const kv_seen *seen, uint8_t *mark);
size_t kv_cost_mark_size(const kv_shape *shape);
/* For the same row: marks the entries whose bytes are `fetched` in the first
 * lane->n bytes of mark, which the caller clears. Then: bytes of K and V of the
 * entries still marked. */
void kv_cost_mark_fetched(const kv_seen *seen, uint8_t *mark);
int64_t kv_cost_marked(const kv_lane *lane, uint8_t *mark);

/* Counts the memory operations that a lane recorded in the current block. Call
 * it after compression and before end_step, which drops the records. */
typedef struct kv_cost_verbs {
  int64_t records; /* of verbs */
  int64_t moved;   /* K and V bytes written anew by merges and coding */
} kv_cost_verbs;
kv_cost_verbs kv_cost_lane_verbs(const kv_lane *lane);
/* Adds them, for one lane or summed over several, to the layer's. */
void kv_cost_moved(kv_cost *c, int layer, const kv_cost_verbs *v);

/* Entries of a lane (its number in the layer) after the last step. */
void kv_cost_kept(kv_cost *c, int layer, int lane, int entries);

/* The ledger up to and including a block that every layer has fed, for
 * sessions; walks all blocks before it. */
typedef struct kv_cost_now {
  kv_bytes held; /* after the block was compressed */
  int64_t peak;  /* bytes, as above */
  double mean;   /* bytes since the prompt's end; 0 before it */
} kv_cost_now;
kv_cost_now kv_cost_until(const kv_cost *c, int block);

/* Call it once, when everything is fed. Fills in r->totals except `asset`,
 * r->step (freed by kv_result_free), and `kept` of the parts that
 * kv_fidelity_finish made before (NaN for bins of steps). read, scanned, cr and
 * attended are NaN if nothing was decoded; needle_kept and needle_worst are
 * NaN, for kv_fidelity_kept. KV_RESOURCE: memory. */
kv_rc kv_cost_finish(const kv_cost *c, kv_result *r, kv_err *e);

#endif
