/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "delta" of DeltaKV. A token in a layer is stored as a latent
 * vector, which a compressor makes from its difference to the mean of a few
 * earlier tokens, and the ids of these tokens. It is layered
 * (ref/formats/format.h). Compressors are weights, so ref/parts/latents.h codes
 * and decodes; this file only defines a latent vector's bytes. Latent vectors
 * of low rank (ref/parts/lowrank.h) are also stored this way, without ids.
 *
 *   fp16, bf16, fp32: each element rounded to nearest even
 *   int4: a row of the format token, 4 bits, by KV_RULE_STORED; the whole
 *     vector or `group` neighbouring elements share scale and minimum
 *
 * Charged for a token's block: its latent vector (codes); scales and minima,
 * `nearest` ids of 4 bytes and, unless `ordered`, its position, 4 bytes
 * (metadata). A token that is both a reference and coded also holds `raw` bytes
 * of its own K and V (codes).
 */
#ifndef KV_REF_FORMATS_DELTA_H
#define KV_REF_FORMATS_DELTA_H

#include "ref/formats/format.h"

/* How a latent vector is stored. */
typedef enum kv_latent_type {
  KV_LATENT_FP16,
  KV_LATENT_BF16,
  KV_LATENT_FP32,
  KV_LATENT_INT4,
  KV_LATENT_NONE /* no latent vector, only the mean */
} kv_latent_type;

enum { KV_MOST_NEAREST = 32 }; /* most ids of a block */

/* The settings of the format, for needs.coding. */
typedef struct kv_delta {
  int32_t latent;    /* elements of z */
  int32_t type;      /* a kv_latent_type */
  int32_t group;     /* int4: elements that share; 0: all */
  int32_t nearest;   /* ids in a block, at most KV_MOST_NEAREST */
  int32_t raw;       /* bytes of original K and V that are also held */
  int32_t reference; /* flag: its tokens are references. Changes no byte; keeps
                        two otherwise equal codings apart */
  int32_t ordered;   /* flag: tokens are in order, no position is stored */
} kv_delta;

extern const kv_format kv_format_delta;

/* Write z[c->latent] into the block of kv_delta_bytes(c) bytes, and read it
 * back. put returns false if an element, a scale or a minimum is not finite as
 * stored; the caller then fails the cell. With KV_LATENT_NONE both do nothing,
 * and put returns true. */
bool kv_delta_put(const kv_delta *c, const float *z, void *block);
void kv_delta_get(const struct kv_kernels *kernels, const kv_delta *c,
                  const void *block, float *z);
/* Bytes of the latent vector in a block, scales and minima included: what put
 * writes, without ids and position. */
size_t kv_delta_bytes(const kv_delta *c);

#endif
