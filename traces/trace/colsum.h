/* SPDX-License-Identifier: Apache-2.0
 *
 * Column sums of the prompt's probabilities: what one may be, and what it is,
 * recomputed from q and k in the canonical arithmetic. A column's sum is that
 * of RN(P * 2^40) over the prompt rows that see it, so that it is at least 0
 * and at most so many times 2^40.
 *
 * Recomputing costs what the prompt's logits cost; memory: 32 rows of logits
 * a thread. Sums are of integers, so that any number of threads gives the
 * same.
 */
#ifndef KV_TRACES_COLSUM_H
#define KV_TRACES_COLSUM_H

#include <stdbool.h>
#include <stdint.h>

#include "ref/ground/err.h"
#include "ref/ground/shape.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

#define KV_COLSUM_ONE ((int64_t)1 << 40) /* all of one row's mass */

/* Can they be recomputed: does the i-th recorded layer hold every prompt
 * row? */
bool kv_colsum_can(const kv_trace *t, int i);

/* out: [n_heads][prompt_len], of a layer whose first recorded rows are the
 * prompt's. KV_INPUT where a logit is not finite. */
kv_rc kv_colsum(const kv_shape *shape, const kv_layer_data *data,
                const kv_kernels *kernel, int64_t *out, kv_err *e);

/* The recorded one, which lies anywhere. */
int64_t kv_colsum_at(const kv_layer_data *data, size_t at);

/* KV_INPUT, naming the first that cannot be. */
kv_rc kv_colsum_scan(const kv_trace *t, int i, kv_err *e);

#endif
