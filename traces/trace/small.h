/* SPDX-License-Identifier: Apache-2.0
 *
 * Small synthetic traces from a struct of eight fields, for the laws of
 * kvreplay lawcheck and for tests, whose replays must be fast.
 */
#ifndef KV_TRACES_SMALL_H
#define KV_TRACES_SMALL_H

#include "ref/ground/err.h"
#include "ref/ground/shape.h"

typedef struct kv_small {
  const char *name; /* of the model, in the metadata */
  int n_layers, n_heads, n_kv_heads;
  int d;          /* dimension of q, k and v: a multiple of 4, 8 to 1024 */
  kv_dtype dtype; /* of q, k and v */
  int n_tokens;   /* prompt and decoded tokens, at least 1 */
  int prompt_len; /* 1 to n_tokens */
} kv_small;

/* Writes it to path, NAME.safetensors, by kv_synth_write (synth.h, with its
 * errors) with RoPE frequencies of base 10000; the same seed gives the same
 * file. */
kv_rc kv_small_write(const kv_small *t, uint64_t seed, const char *path,
                     kv_err *e);
/* The same with all values v multiplied by 2^exponent, -252 to 252. */
kv_rc kv_small_write_scaled(const kv_small *t, uint64_t seed, int exponent,
                            const char *path, kv_err *e);

#endif
