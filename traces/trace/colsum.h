/* SPDX-License-Identifier: Apache-2.0
 *
 * Column sums of the prompt's attention: for each query head and prompt token
 * the sum of RN(P * 2^40) over the prompt rows that see it, where P is a row's
 * probability of that token. A trace may record them. They are integers, so the
 * number of threads does not matter. Used to check, convert and record traces.
 * Layers are the i-th recorded one, from 0.
 */
#ifndef KV_TRACES_COLSUM_H
#define KV_TRACES_COLSUM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

#define KV_COLSUM_ONE ((int64_t)1 << 40) /* the mass of one row */

/* Can sums be recomputed: are the query rows of all prompt tokens recorded? */
bool kv_colsum_can(const kv_trace *t, int i);

/* Recomputes them into out[n_heads][prompt_len] from q and k of a layer with
 * kv_colsum_can. Cost: the prompt's logits; memory, a thread: 32 rows of logits
 * and, for each query head of a KV head, a row of sums. KV_INPUT: a logit is
 * not finite. KV_RESOURCE: memory. out is undefined after a failure. */
kv_rc kv_colsum(const kv_shape *shape, const kv_layer_data *data,
                const kv_kernels *kernel, int64_t *out, kv_err *e);

/* The same only for the query heads that read KV head g:
 * out[group][prompt_len], the group's heads in order. KV_RESOURCE also once
 * *stop, which may be NULL, is not 0: it is polled between blocks of rows. */
kv_rc kv_colsum_head(const kv_shape *shape, const kv_layer_data *data, int g,
                     const kv_kernels *kernel,
                     const volatile sig_atomic_t *stop, int64_t *out,
                     kv_err *e);

/* The same from arrays, for a recorder: q [n_heads][n_tokens][d] and k
 * [n_kv_heads][n_tokens][d] of one kv_dtype; their first prompt_len rows are
 * the prompt. softcap: of the logits, 0: none. window: tokens that a row sees,
 * its own included, 0: all. sinks: [n_heads] logits, or NULL. out and errors as
 * above. Plain arguments, because Python calls it. */
kv_rc kv_colsum_of(int n_heads, int n_kv_heads, int d, int n_tokens,
                   int prompt_len, float scale, float softcap, int window,
                   const float *sinks, int dtype, const void *q, const void *k,
                   int64_t *out, kv_err *e);

/* Element `at` of the recorded sums, data->colsum, which may be unaligned. */
int64_t kv_colsum_at(const kv_layer_data *data, size_t at);

/* KV_INPUT, naming the first, if a recorded sum is below 0 or more than the
 * rows that see its token could give. */
kv_rc kv_colsum_scan(const kv_trace *t, int i, kv_err *e);

#endif
