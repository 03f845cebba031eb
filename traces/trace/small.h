/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic traces in a row each: what laws and tests are asked on, where only
 * the geometry matters and a replay shall take no time.
 */
#ifndef KV_TRACES_SMALL_H
#define KV_TRACES_SMALL_H

#include "ref/ground/err.h"
#include "ref/ground/shape.h"

typedef struct kv_small {
  const char *name; /* of the model */
  int n_layers, n_heads, n_kv_heads, d;
  kv_dtype dtype;
  int n_tokens, prompt_len;
} kv_small;

/* As kv_synth_write, frequencies of base 10000. */
kv_rc kv_small_write(const kv_small *t, uint64_t seed, const char *path,
                     kv_err *e);
/* The same, values multiplied by 2 to the exponent. */
kv_rc kv_small_write_scaled(const kv_small *t, uint64_t seed, int exponent,
                            const char *path, kv_err *e);

#endif
