/* SPDX-License-Identifier: Apache-2.0
 *
 * What info --attention adds: traces/trace/attention.h of every recorded layer,
 * as a table or as JSON.
 */
#ifndef KV_TRACES_KVTRACE_ATTENTION_H
#define KV_TRACES_KVTRACE_ATTENTION_H

#include <jansson.h>

#include "traces/trace/attention.h"

/* *out: [n_layers recorded][n_heads], for free(). Shows progress on stderr. */
kv_rc kv_attention_take(const kv_trace *t, kv_attention **out, kv_err *e);

/* A list of heads, layer by layer. */
json_t *kv_attention_json(const kv_trace *t, const kv_attention *a);

/* A line a head, each layer's mean below its heads. */
void kv_attention_print(const kv_trace *t, const kv_attention *a);

#endif
