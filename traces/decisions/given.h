/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions that a program makes while it runs, in memory in place of a file of
 * decisions (ref/lane/decisions.h): for every layer and KV head one list, what
 * stays when the prompt has ended. The method `replay` follows them like a
 * file's. A session whose method was given no file opens them
 * (sim/run/session/session.c):
 *   kv_given_open; kv_given_keep, before the layer's prompt is compressed;
 *   kv_asset_close
 * Memory: 4 bytes a token of the prompt and KV head.
 */
#ifndef KV_TRACES_GIVEN_H
#define KV_TRACES_GIVEN_H

#include "traces/decisions/asset.h"

/* Makes an asset of kind kv_decisions_kind for the layers of t, in which every
 * list names all prompt_len tokens. t need have no file. KV_RESOURCE: memory,
 * *out is then NULL. */
kv_rc kv_given_open(const kv_trace *t, int prompt_len, kv_asset **out,
                    kv_err *e);
/* Of KV head `head` on the index-th of t's layers (both exist) the tokens
 * id[0..n) stay, in that order, in place of what was said before. KV_USAGE,
 * with a sentence and nothing changed: n is 0, or an id is none of the prompt's
 * or comes twice; KV_RESOURCE: memory. */
kv_rc kv_given_keep(kv_asset *a, int index, int head, int n, const uint32_t *id,
                    kv_err *e);
/* `to`, opened for the same layers, heads and prompt, says what `from` does. */
void kv_given_copy(const kv_asset *from, kv_asset *to);

#endif
