/* SPDX-License-Identifier: Apache-2.0
 *
 * What the layers of a cell publish for the layers below them (KV_DOWN of
 * ref/lane/method.h): one slot for each closing, that is, each block of the
 * prompt and then each decode step, numbered from 0. Opened for each cell, and
 * for what compares two backends; read and written by
 * sim/replay/engine/order.h.
 *
 * A slot holds the message of the layer that published last at that closing.
 * That is the right one for the next layer whether the walk goes layer by
 * layer, so that all slots are those of the layer above, or step by step: all
 * that is needed is that every layer makes a closing after the layer above it
 * made that closing, and before any layer below does. Layers below read in
 * place, so one layer of a cell is in flight at a time, or one step.
 *
 * Messages of past steps are kept because of the order of the walk alone: where
 * a model runs, a message is over with its step. The ledger does not count
 * them; what a method carries from step to step is in its lanes' state.
 *
 * Memory: 16 bytes and the message, rounded up to 64, for each closing. Not
 * thread-safe.
 */
#ifndef KV_SIM_MESSAGES_H
#define KV_SIM_MESSAGES_H

#include "ref/ground/err.h"
#include "ref/lane/method.h"

typedef struct kv_messages kv_messages;

/* bytes: of a message, > 0; closings >= 1. KV_RESOURCE: memory. */
kv_rc kv_messages_open(size_t bytes, int closings, kv_messages **out,
                       kv_err *e);
void kv_messages_close(kv_messages *m); /* accepts NULL */

/* What was published last at closing n (in range: asserted), or NULL: nothing.
 * Valid until another layer publishes at that closing. */
const kv_message *kv_messages_at(const kv_messages *m, int n);
/* The layer said->layer publishes said->data, which is copied, at closing n. */
void kv_messages_put(kv_messages *m, int n, const kv_message *said);
/* Forgets all messages. */
void kv_messages_clear(kv_messages *m);
/* `to`, empty and opened with the same numbers (asserted), gets the messages of
 * `from`. Costs what was published. */
void kv_messages_copy(const kv_messages *from, kv_messages *to);

#endif
