/* SPDX-License-Identifier: Apache-2.0
 *
 * `kvtrace info --attention`: what each recorded head attends to, computed by
 * traces/trace/attention.h, as a table or as JSON. Only for kvtrace_info.c.
 */
#ifndef KV_TRACES_KVTRACE_ATTENTION_H
#define KV_TRACES_KVTRACE_ATTENTION_H

#include <jansson.h>

#include "traces/trace/attention.h"

/* Computes all recorded layers: *out is [t->n_layers][n_heads], for free(),
 * also after a failure; NULL without memory. Shows progress on standard error.
 * Errors as those of kv_attention_layer and kv_choose_kernels. */
kv_rc kv_attention_take(const kv_trace *t, kv_attention **out, kv_err *e);

/* A JSON list of one object a head, layer by layer; a number without rows is
 * null. Call it between kv_json_begin and kv_json_end (traces/text/json.h). */
json_t *kv_attention_json(const kv_trace *t, const kv_attention *a);

/* Prints the table: a line a head, the mean of its heads below each layer, and
 * finally in how many layers that mean has an attention sink. */
void kv_attention_print(const kv_trace *t, const kv_attention *a);

#endif
