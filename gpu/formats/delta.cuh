/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "delta" on the device, as ref/formats/delta.h defines it,
 * DeltaKV's and Palu's latent vectors. A block begins with the fp32 row that
 * the token stands for in its lane: attention reads it unless it decodes latent
 * vectors itself (gpu/host/rebuilt.h), and the journal hashes it. gpu/parts
 * codes and decodes (latents.cuh); here are the bytes of a latent vector:
 * latent, put and get. The others are what gpu/formats/format.cuh requires of a
 * format.
 */
#ifndef KV_GPU_FORMATS_DELTA_CUH
#define KV_GPU_FORMATS_DELTA_CUH

#include "gpu/formats/token.cuh"
#include "ref/formats/delta.h"

struct kv_gpu_format_delta {
  /* 4-bit codes as settings of format token: `group` elements, or all, share a
   * scale. */
  KV_DEVICE kv_minmax codes(const kv_delta &c) {
    return {4, c.group ? c.group : c.latent, KV_RULE_STORED};
  }

  /* Bytes of a stored latent vector: its codes, and scales and minima of
   * KV_LATENT_INT4. */
  KV_DEVICE kv_gpu_coded_size latent(const kv_delta &c) {
    kv_minmax m = codes(c);
    if (c.type == KV_LATENT_NONE) return {0, 0};
    if (c.type == KV_LATENT_INT4)
      return kv_gpu_format_token::size(&m, 1, c.latent);
    return {(int64_t)c.latent * (c.type == KV_LATENT_FP32 ? 4 : 2), 0};
  }

  /* Bytes that count as a token's, over all lanes: its latent vector, raw K and
   * V held as well, the ids, and a position unless tokens are in order. */
  KV_DEVICE kv_gpu_coded_size size(const void *settings, int, int) {
    const kv_delta &c = *(const kv_delta *)settings;
    kv_gpu_coded_size of = latent(c);
    return {of.codes + c.raw,
            of.metadata + 4 * (int64_t)c.nearest + (c.ordered ? 0 : 4)};
  }

  /* Element x of the lane's row, which is stored as it is. */
  KV_DEVICE float decode(const void *, int, const kv_gpu_block &block, int,
                         int x) {
    return ((const float *)block.metadata)[x];
  }

  KV_DEVICE bool decode_four(const void *, int, const kv_gpu_block &block, int,
                             int x, float *to) {
    KV_UNROLL
    for (int e = 0; e < 4; e++) to[e] = ((const float *)block.metadata)[x + e];
    return true;
  }

  /* Fails: gpu/parts codes whole tokens, no row by itself. */
  template <class Rows, class Block>
  KV_DEVICE int encode(const void *, int, int, int, const Rows &,
                       const Block &) {
    return 0;
  }

  /* Stores z [c.latent] at `to`, latent(c) bytes aligned for their type, and
   * writes the stored values back to z. By all threads of the block together,
   * with a barrier at the end. False, for all: an element, a scale or a minimum
   * is not finite as stored. */
  KV_DEVICE bool put(const kv_delta &c, float *z, char *to) {
    bool wrong = false;
    if (c.type == KV_LATENT_INT4) return put_codes(c, z, to);
    for (int i = kv_thread(); i < c.latent; i += KV_BLOCK) {
      wrong |= !kv_finite(z[i]);
      if (c.type == KV_LATENT_FP32) {
        ((float *)to)[i] = z[i];
        continue;
      }
      bool half = c.type == KV_LATENT_FP16;
      uint16_t h = half ? kv_to_f16(z[i]) : kv_to_bf16(z[i]);
      ((uint16_t *)to)[i] = h;
      z[i] = half ? kv_from_f16(h) : kv_from_bf16(h);
      wrong |= !kv_finite(z[i]);
    }
    return !kv_block_any(wrong);
  }

  /* The same for KV_LATENT_INT4. */
  KV_DEVICE bool put_codes(const kv_delta &c, float *z, char *to) {
    kv_minmax m = codes(c);
    kv_gpu_block block = {to, to + latent(c).metadata};
    bool wrong = false;
    for (int i = kv_thread(); i < c.latent; i += KV_BLOCK)
      wrong |= !kv_finite(z[i]);
    wrong = kv_block_any(wrong);
    auto row = [&](int, int, int x) { return z[x]; };
    auto only = [&](int) { return block; };
    bool fits = kv_gpu_format_token::encode(&m, 1, 1, c.latent, row, only) == 1;
    __syncthreads();
    for (int i = kv_thread(); i < c.latent; i += KV_BLOCK)
      z[i] = kv_gpu_format_token::decode(&m, c.latent, block, 0, i);
    __syncthreads();
    return fits && !wrong;
  }

  /* Element i of the latent vector at `from`; by any one thread. */
  KV_DEVICE float get(const kv_delta &c, const char *from, int i) {
    kv_minmax m = codes(c);
    kv_gpu_block block = {(char *)from, (char *)from + latent(c).metadata};
    if (c.type == KV_LATENT_FP32) return ((const float *)from)[i];
    if (c.type == KV_LATENT_INT4)
      return kv_gpu_format_token::decode(&m, c.latent, block, 0, i);
    uint16_t h = ((const uint16_t *)from)[i];
    return c.type == KV_LATENT_FP16 ? kv_half(h) : kv_from_bf16(h);
  }
};

#endif
