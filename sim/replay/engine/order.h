/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which the engine calls a backend (ref/backend/backend.h), in one
 * place. Used by walks over a trace and sessions (sim/replay/engine/layer.c),
 * by the comparison of two backends (sim/run/compare/compare.c) and by tests.
 * They observe between the calls through the callbacks of kv_order:
 *
 *   first, once for the layer: receive, if layers publish messages
 *   a block of the prompt, one KV head: append for its lanes; observation;
 *   compress for its lanes
 *   a decode step, one KV head, lane after lane: append; view;
 *   materialise; attend; compress
 *   a row of a later chunk (kv_shape.chunk), one KV head: as a decode step, but
 *   the observation of the chunk and compress come after its last row
 *   then, once for the layer: compress_layer; publish, as receive; end_step;
 *   after a row that is not its chunk's last, only end_step
 *
 * The caller begins the layer before the first block and finishes it after the
 * last step. Threads may work on different KV heads at the same time, each with
 * its own kv_order and scratches. Nothing here fails: errors become faults of
 * the store.
 */
#ifndef KV_SIM_ORDER_H
#define KV_SIM_ORDER_H

#include "ref/backend/backend.h"
#include "sim/replay/engine/messages.h"

/* One store, of one cell, that passes through the layer. */
typedef struct kv_rider {
  const kv_backend *backend; /* whose functions are called */
  kv_store *store;           /* the store to call them with */
  kv_scratch *scratch;       /* the thread's scratch */
  bool alone; /* compute its prompt's observation separately. All other riders
                 share one pass; they must have the same backend and scratch and
                 hold the same, unchanged tokens */
  /* If its plan's needs.across is KV_DOWN, else NULL: the messages that the
   * layer reads, and those that it adds to. The same, unless a layer is
   * replayed more than once. */
  const kv_messages *above;
  kv_messages *below;
  double *seconds; /* the time spent in its own calls is added here; or NULL */
} kv_rider;

/* Riders advance together: all make a call before any makes the next. In a
 * decode step several riders need a scratch each and the same number of lanes.
 */
typedef struct kv_order {
  int riders;
  const kv_rider *rider; /* [riders] */
  kv_store **shared;     /* [riders] scratch for a shared pass */
  int heads;             /* KV heads of the layer */
  int closing;           /* blocks and steps before this one */
  const kv_known *known; /* logits of the current decode row, or NULL */
  void *self; /* first argument of the callbacks; each of them may be NULL */
  /* Rider number `who` has attended. seen is valid until the rider compresses.
   */
  void (*attended)(void *self, int who, const kv_seen *seen);
  /* A lane of rider `who` is about to compress: the block's tokens are stored
   * and every rider's lane has attended. */
  void (*compresses)(void *self, int who, int lane);
  /* Rider `who` is about to close its step: all its lanes are compressed. */
  void (*closes)(void *self, int who);
} kv_order;

/* Passes the stores what the layers above have published at the next block or
 * step. Call it before the first KV head. */
void kv_order_receive(const kv_order *o);
/* Enters tokens first..first+count-1 of the prompt for KV head g. */
void kv_order_prompt(const kv_order *o, int g, int first, int count);
/* Row t of a later chunk of the prompt, KV head g: its token enters and
 * attends. After a chunk's last row call kv_order_rows_end for each KV head,
 * then kv_order_close; after other rows kv_order_row_close. */
void kv_order_row(const kv_order *o, int g, int t);
void kv_order_rows_end(const kv_order *o, int g, int first, int count);
void kv_order_row_close(const kv_order *o);
/* Lets the riders compute the attention of decode steps t..t+steps-1 of KV head
 * g ahead (ref/backend/ahead.h). known: exact queries and logits of these rows,
 * one after another; NULL if one is not finite. */
void kv_order_ahead(const kv_order *o, int g, int t, int steps,
                    const kv_known *known);
/* Decodes token t for KV head g, as above. */
void kv_order_decode(const kv_order *o, int g, int t);
/* Closes the block or step of the layer: compress_layer, publish, end_step.
 * Call it after all KV heads. */
void kv_order_close(const kv_order *o);

#endif
