/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions that a program makes while it runs, in memory instead of in a file
 * of decisions (ref/lane/decisions.h): one list for every layer and KV head of
 * what stays when the prompt has ended. The method `replay` follows them like a
 * file's. A session whose method got no file opens them
 * (sim/run/session/session.c):
 *   kv_given_open; kv_given_keep, before the layer's prompt is compressed;
 *   kv_asset_close
 * Memory: 4 bytes a token of the prompt and KV head.
 */
#ifndef KV_TRACES_GIVEN_H
#define KV_TRACES_GIVEN_H

#include "traces/decisions/asset.h"

/* Makes an asset of kind kv_decisions_kind for the layers of t, in which every
 * list names all prompt_len tokens. t need not have a file. KV_RESOURCE:
 * memory; *out is then NULL. */
kv_rc kv_given_open(const kv_trace *t, int prompt_len, kv_asset **out,
                    kv_err *e);
/* Sets the list of KV head `head` on the index-th of t's layers (both exist):
 * tokens id[0..n) stay, in that order. KV_USAGE, with nothing changed: n is 0,
 * or an id is outside the prompt or occurs twice. KV_RESOURCE: memory. */
kv_rc kv_given_keep(kv_asset *a, int index, int head, int n, const uint32_t *id,
                    kv_err *e);
/* Copies the lists of `from` to `to`; both have equal layers, heads, prompt. */
void kv_given_copy(const kv_asset *from, kv_asset *to);

#endif
