/* SPDX-License-Identifier: Apache-2.0
 *
 * How a model's attention differs from softmax(scale q.k) v over all tokens so
 * far, as a trace of version 2 records it (traces/README.md): a sliding window,
 * a cap on logits, learned sinks, V in K. For kv_trace_open; other code calls
 * kv_trace_expect_plain of traces/trace/trace.h.
 */
#ifndef KV_TRACES_VARIANT_H
#define KV_TRACES_VARIANT_H

#include <stdbool.h>

#include "ref/ground/err.h"
#include "traces/container/safetensors.h"
#include "traces/trace/trace.h"

/* Checks the metadata `format` and `version`, and that this program knows every
 * key of that version that says how attention is computed. In version 1
 * softcap, window and sinks must be absent or `none`. In version 2 any other
 * key that begins with attn., rope. or kv. is refused unless it is `none`.
 * file: for messages. KV_INPUT. */
kv_rc kv_variant_version(const char *file, const kv_st *s, kv_err *e);

/* Is a trace, whose version was checked, of version 2? */
bool kv_variant_second(const kv_st *s);

/* For version 2: fills in shape.softcap and .shared, and data.window of every
 * recorded layer of t. Call it when t->layer exists. KV_INPUT, naming the key;
 * KV_RESOURCE: memory. */
kv_rc kv_variant_read(kv_trace *t, const kv_st *s, kv_err *e);

/* Reads layers.L.sinks of the i-th recorded layer, if a trace of version 2 has
 * it, into data.sinks: finite, [n_heads]. KV_INPUT, naming the tensor.
 * KV_RESOURCE: memory. */
kv_rc kv_variant_sinks(kv_trace *t, int i, kv_err *e);

#endif
