/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "delta", DeltaKV's: of a token in a layer stands a latent vector,
 * what a compressor makes of the difference to the mean of a few earlier
 * tokens, and which tokens these are. It is layered (ref/formats/format.h):
 * compressors are weights, so who codes and decodes is ref/parts/latents.h, and
 * here is what a latent vector is in bytes. Latent vectors of low rank
 * (ref/parts/lowrank.h) are stored as this says, too, and name no tokens.
 *
 *   fp16, bf16, fp32: each element rounded to nearest even
 *   int4: a row of the format token, 4 bits, by KV_RULE_STORED, the whole
 *     vector or `group` neighbouring elements sharing scale and minimum
 *
 * A token's block is charged: its latent vector (codes); scales and minima, the
 * ids of `nearest` tokens of 4 bytes and, unless `ordered`, its position of 4
 * (metadata). Where a token is itself a reference and coded all the same, `raw`
 * bytes of its own K and V are held beside it (codes).
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
  KV_LATENT_NONE /* no latent vector: the mean alone */
} kv_latent_type;

enum { KV_MOST_NEAREST = 32 }; /* ids that a block names at most */

/* The settings of the format, for needs.coding. */
typedef struct kv_delta {
  int32_t latent;    /* elements of z */
  int32_t type;      /* a kv_latent_type */
  int32_t group;     /* of int4: elements that share; 0: all */
  int32_t nearest;   /* ids a block has room for, at most KV_MOST_NEAREST */
  int32_t raw;       /* bytes of K and V as they came, held beside it */
  int32_t reference; /* flag: its tokens are references. It changes no byte,
                        but makes two codings of equal ones */
  int32_t ordered;   /* flag: tokens stand in their order, no position is stored
                      */
} kv_delta;

extern const kv_format kv_format_delta;

/* z[c->latent] into the block of kv_delta_bytes(c) bytes, and back. put returns
 * false where an element, a scale or a minimum is not finite as stored; the
 * caller then fails the cell. Of KV_LATENT_NONE both do nothing, and put
 * returns true. */
bool kv_delta_put(const kv_delta *c, const float *z, void *block);
void kv_delta_get(const struct kv_kernels *kernels, const kv_delta *c,
                  const void *block, float *z);
/* Bytes of the latent vector in a block, scales and minima included: what put
 * writes, without ids and position. */
size_t kv_delta_bytes(const kv_delta *c);

#endif
