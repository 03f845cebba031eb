/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages from layers to the layers below them (KV_DOWN of ref/lane/method.h):
 * one slot for each closing, that is, for each block of the prompt and then
 * each decode step, numbered from 0. Opened for each cell, and by the
 * comparison of two backends; read and written by sim/replay/engine/order.h.
 *
 * A slot holds the message of the layer that published last at that closing.
 * That is the right one for the next layer in both walks, layer by layer and
 * step by step. The only requirement is that each layer makes a closing after
 * the layer above it and before any layer below. Layers below read in place, so
 * only one layer, or one step, of a cell may be in flight.
 *
 * Messages of past steps are kept only because of the order of the walk; in a
 * running model a message ends with its step. So the ledger does not count
 * them. What a method carries from step to step is in its lanes' state.
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

/* The message published last at closing n (in range: asserted), or NULL. Valid
 * until another layer publishes at that closing. */
const kv_message *kv_messages_at(const kv_messages *m, int n);
/* The layer said->layer publishes said->data, which is copied, at closing n. */
void kv_messages_put(kv_messages *m, int n, const kv_message *said);
/* Forgets all messages. */
void kv_messages_clear(kv_messages *m);
/* Copies the messages of `from` to `to`, which is empty and was opened with the
 * same numbers (asserted). Costs a copy of what was published. */
void kv_messages_copy(const kv_messages *from, kv_messages *to);

#endif
