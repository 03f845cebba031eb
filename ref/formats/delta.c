/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "delta": ref/formats/delta.h.
 */
#include "ref/formats/delta.h"
#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include <string.h>

static kv_minmax codes_of(const kv_delta *c) {
  return (kv_minmax){4, c->group ? c->group : c->latent, KV_RULE_STORED};
}

static size_t element(const kv_delta *c) {
  return c->type == KV_LATENT_FP32 ? 4 : 2;
}

static kv_coded_size latent_size(const kv_delta *c) {
  kv_minmax m = codes_of(c);
  if (c->type == KV_LATENT_NONE) return (kv_coded_size){0, 0};
  if (c->type == KV_LATENT_INT4) return kv_format_token.size(&m, 1, c->latent);
  return (kv_coded_size){.codes = (size_t)c->latent * element(c)};
}

size_t kv_delta_bytes(const kv_delta *c) {
  kv_coded_size size = latent_size(c);
  return size.codes + size.metadata;
}

static bool put_short(const kv_delta *c, float x, char *out) {
  uint16_t h = c->type == KV_LATENT_FP16 ? kv_to_f16(x) : kv_to_bf16(x);
  memcpy(out, &h, sizeof h);
  return kv_finite(c->type == KV_LATENT_FP16 ? kv_from_f16(h)
                                             : kv_from_bf16(h));
}

static bool all_finite(const float *z, int n) {
  for (int i = 0; i < n; i++)
    if (!kv_finite(z[i])) return false;
  return true;
}

bool kv_delta_put(const kv_delta *c, const float *z, void *block) {
  kv_minmax m = codes_of(c);
  bool fits = all_finite(z, c->latent);
  if (c->type == KV_LATENT_NONE) return true;
  if (c->type == KV_LATENT_INT4)
    return kv_format_token.encode(&m, 1, c->latent, &z, block) && fits;
  if (c->type == KV_LATENT_FP32) {
    memcpy(block, z, (size_t)c->latent * sizeof *z);
    return fits;
  }
  for (int i = 0; i < c->latent; i++)
    fits = put_short(c, z[i], (char *)block + 2 * i) && fits;
  return fits;
}

void kv_delta_get(const struct kv_kernels *kernels, const kv_delta *c,
                  const void *block, float *z) {
  kv_minmax m = codes_of(c);
  static const kv_dtype type[] = {KV_F16, KV_BF16, KV_F32};
  if (c->type == KV_LATENT_INT4)
    kv_format_token.decode(kernels, &m, 1, c->latent, block, 0, z);
  else if (c->type != KV_LATENT_NONE)
    kernels->widen(type[c->type], block, (size_t)c->latent, z);
}

static int named(const void *settings) {
  return ((const kv_delta *)settings)->nearest;
}

static size_t bytes(const void *settings) { return kv_delta_bytes(settings); }

static bool held(const void *settings) {
  return ((const kv_delta *)settings)->raw > 0;
}

static int members(const void *settings) {
  (void)settings;
  return 1;
}

static kv_coded_size size(const void *settings, int n, int width) {
  const kv_delta *c = settings;
  kv_coded_size of = latent_size(c);
  (void)n, (void)width;
  of.codes += (size_t)c->raw;
  of.metadata += 4 * (size_t)c->nearest + (c->ordered ? 0 : 4);
  return of;
}

static void decode(const struct kv_kernels *kernels, const void *settings,
                   int n, int width, const void *in, int member, float *out) {
  (void)kernels, (void)settings, (void)n, (void)member;
  memcpy(out, in, (size_t)width * sizeof *out);
}

static const kv_layered layered = {
    .named = named, .bytes = bytes, .held = held};

const kv_format kv_format_delta = {.name = "delta",
                                   .settings_size = sizeof(kv_delta),
                                   .members = members,
                                   .layered = &layered,
                                   .size = size,
                                   .decode = decode};
