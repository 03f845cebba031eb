/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger of one cell: bytes that its stores held, read and rewrote, and
 * entries kept. Fed block by block during a replay, summed up by
 * kv_cost_finish.
 *
 * Blocks are numbered in the order in which they enter: 0..blocks-1 are the
 * prompt's, and the last of them ends at prompt_len tokens seen; block
 * blocks-1+i is the i-th decode step. Sums and means over t, tokens seen, run
 * from prompt_len to n_tokens and count bytes after compression. Only the peak
 * also includes the earlier prompt blocks:
 *   peak = max over t of (sum of compressed(l) + max over l of
 *                         (made(l) + before(l) - compressed(l)))
 * because layers compress one after another, so at most one layer at a time
 * holds what it will drop. Before it compresses a layer attends, and holds for
 * that time what it makes of blocks that stand for whole tokens (layered
 * codings): rows of K and V in the trace's own type, made(l), which are in no
 * other number. Where a group of layers holds such rows together, they are all
 * there until its last layer has attended: the maximum is then over groups, of
 * the sum of made(l) over the group and its largest before(l) - compressed(l).
 * To t of the prompt's blocks, its end included, the queries are added that all
 * layers keep for later chunks (kv_cost_take_queries).
 *
 * Everything fed is an integer that is added or maximised, so the result does
 * not depend on the order of feeding: layer by layer, step by step, from any
 * thread. All memory but that of the row is taken at open: for a block 8 bytes
 * a kind of bytes and 56 more, whatever the number of layers (with layers held
 * apart, as much for each layer), and 4 bytes a lane.
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
 * sees, or 0: all; or NULL, as after open: no layer has one. left: the method
 * does not run on layers with a window, so that `kept` and `attended` of the
 * totals leave them out, unless all have one. Call before anything is fed;
 * `window` must outlive the ledger. */
void kv_cost_take_windows(kv_cost *c, const int *window, bool left);

/* Groups of layers that hold the rows that a step makes together: layers that
 * follow each other and have the same number in group[layers], which must
 * outlive the ledger; NULL, as after open: each layer lets its own go. Of a
 * ledger opened with `apart` (asserted), before anything is fed. */
void kv_cost_take_groups(kv_cost *c, const int *group);

/* Bytes of the queries that all layers together keep while the prompt is read
 * in chunks: in the peak of its blocks and in no other number. 0, as after
 * open: none. */
void kv_cost_take_queries(kv_cost *c, int64_t bytes);

/* `to`, opened with the same numbers (asserted), gets all that `from` was fed;
 * while nobody feeds either. Cannot fail. */
void kv_cost_copy(const kv_cost *from, kv_cost *to);

/* Tokens of the dense cache after t tokens seen, summed over t = first..last
 * and over layers with these windows (as above): of one KV head; attended: that
 * a query head sees in the step. A layer with a window holds min(t, window - 1)
 * after the step, as an engine does, for the next token sees no more of them.
 * 0 where last < first. */
int64_t kv_dense_tokens(int layers, const int *window, int first, int last,
                        bool attended);

/* One layer's counters; only of a ledger opened with `apart` (asserted): clears
 * them, but for the entries kept, or copies all of them
 * (sim/replay/measure/copier.h), between ledgers with the same shape, lanes and
 * blocks. */
void kv_cost_layer_begin(kv_cost *c, int layer);
void kv_cost_layer_copy(kv_cost *c, int layer, kv_copier *x);

/* Bytes of one layer, all lanes together, before and after compression at the
 * end of a block (equal where no compression was due); materialised: bytes of
 * rows that its decode step made and let go before it was compressed. Call once
 * per layer and block. */
void kv_cost_held(kv_cost *c, int layer, int block, const kv_bytes *before,
                  int64_t materialised, const kv_bytes *compressed);

/* What one lane cost at a decode step, in bytes but for `attended`. All but
 * `scanned` come from kv_cost_view. */
typedef struct kv_cost_row {
  int64_t bytes;    /* K and V as stored; a row that several heads read counts
                       once, a coded group once if any member is read. Of a
                       layered coding also the tokens that its blocks name */
  int64_t attended; /* entries, summed over the query heads */
  int64_t scanned;  /* looked at in order to choose the view (kv_lane_scanned);
                       0 for a method without a view */
  int64_t fetched;  /* of `bytes`, those of entries that lie in the host's
                       memory (kv_needs.host) */
  int64_t materialised; /* K and V of the tokens of layered codings that are
                       read, which the step makes, in the trace's own type; for
                       kv_cost_held, kv_cost_read does not look at it */
} kv_cost_row;
/* Adds such a row, of any lane of the layer; block: a decode step (asserted).
 */
void kv_cost_read(kv_cost *c, int layer, int block, const kv_cost_row *row);

/* Computes it from an attended row (of the backend's `seen`), before anything
 * compresses. mark: kv_cost_mark_size bytes of scratch, all zero before the
 * first call; each call leaves them zero. */
kv_cost_row kv_cost_view(const kv_seen *seen, uint8_t *mark);
size_t kv_cost_mark_size(const kv_shape *shape);
/* Of the same row: marks, in the first lane->n bytes of mark, the entries whose
 * bytes are `fetched`. The caller clears them. Then the bytes of K and V of
 * what of them is still marked. */
void kv_cost_mark_fetched(const kv_seen *seen, uint8_t *mark);
int64_t kv_cost_marked(const kv_lane *lane, uint8_t *mark);

/* Counts the memory operations that a lane recorded in the current block. Call
 * after compression and before the backend's end_step, which drops the records.
 */
typedef struct kv_cost_verbs {
  int64_t records; /* of verbs */
  int64_t moved;   /* K and V bytes written anew by merges and coding */
} kv_cost_verbs;
kv_cost_verbs kv_cost_lane_verbs(const kv_lane *lane);
/* Adds them, of one lane or the sum over several, to the layer's. */
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

/* Call once, when all is fed. Fills r->totals but for `asset`, r->step (freed
 * by kv_result_free), and `kept` of the parts that kv_fidelity_finish made
 * before (NaN for bins of steps). read, scanned, cr and attended are NaN if
 * nothing was decoded. KV_RESOURCE: memory. */
kv_rc kv_cost_finish(const kv_cost *c, kv_result *r, kv_err *e);

#endif
