/* SPDX-License-Identifier: Apache-2.0
 *
 * How sparse the prompt's attention is in blocks, by query head: the fewest
 * pairs of a query block and a key block that hold a share of its mass, and
 * what patterns of the literature (traces/prefill/pattern.h) would hold in as
 * many pairs. A ruler, for `kvtrace prefill`: nothing is left out of any
 * computation. All figures are whole numbers that neither threads nor the
 * kernel set can change. i is the i-th recorded layer, from 0.
 */
#ifndef KV_TRACES_PREFILL_H
#define KV_TRACES_PREFILL_H

#include "traces/prefill/pattern.h"

/* Of one query head. */
typedef struct kv_prefill {
  int64_t pairs;  /* that a row sees */
  int64_t needed; /* fewest of them with the share of the mass */
  int64_t mass;   /* of all pairs, in units of 2^-40: the prompt's rows, or less
                     beside learned sinks */
  int64_t kept[KV_PATTERNS]; /* of it in `needed` pairs of each pattern */
} kv_prefill;

/* Computes a layer into out[n_heads], in blocks of `block` >= 1 tokens, for a
 * share of `percent`, 1 to 100, on OpenMP's default number of threads, or fewer
 * (kv_threads). Cost: the prompt's logits; memory: 8 bytes a pair and query
 * head of a KV head, 29 a pair, and kv_block_masses's. KV_INPUT: as
 * kv_trace_scan_layer, kv_grid_init and kv_block_masses; KV_RESOURCE: memory.
 * out means nothing then. */
kv_rc kv_prefill_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                       int block, int percent, kv_prefill *out, kv_err *e);

/* The masses themselves: the attention map of a layer, for `see`, once a query
 * head in their order, which returns KV_OK to go on. Errors as above, and its.
 */
typedef kv_rc kv_prefill_see(void *self, int head, const kv_grid *grid,
                             const int64_t *mass, kv_err *e);
kv_rc kv_prefill_map(const kv_trace *t, int i, const kv_kernels *kernel,
                     int block, kv_prefill_see *see, void *self, kv_err *e);

#endif
