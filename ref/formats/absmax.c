/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "absmax": a group is one row, of which `group` neighbouring
 * elements share a scale; integers about 0, and floats of 8 bits. A block:
 * scales, then codes. Arithmetic: ref/formats/absmax.h, which both backends
 * share. Cost: O(width) each way, in plain loops.
 */
#include "ref/formats/absmax.h"
#include <string.h>

static kv_coded_size size(const void *settings, int rows, int width) {
  const kv_minmax *c = settings;
  (void)rows;
  return (kv_coded_size){
      .codes = (size_t)kv_absmax_plane(c, width),
      .metadata = (size_t)(kv_minmax_runs(c, width) * kv_absmax_scale_size(c))};
}

static void put_scale(const kv_minmax *c, int g, float scale, char *out) {
  if (c->rule == KV_RULE_INTEGER)
    kv_put_half(out + 2 * (size_t)g, scale);
  else
    memcpy(out + 4 * (size_t)g, &scale, 4);
}

static float scale_at(const kv_minmax *c, int g, const char *in) {
  float scale;
  if (c->rule == KV_RULE_INTEGER) return kv_half_at(in + 2 * (size_t)g);
  memcpy(&scale, in + 4 * (size_t)g, 4);
  return scale;
}

/* The largest magnitude of some numbers; NaN, where one is among them. */
static float largest(int n, const float *x) {
  uint32_t most = 0;
  for (int i = 0; i < n; i++) {
    uint32_t a = kv_bits(x[i]) & 0x7fffffffu;
    most = a > most ? a : most;
  }
  return kv_float(most);
}

static bool encode(const void *settings, int rows, int width,
                   const float *const *row, void *out) {
  const kv_minmax *c = settings;
  kv_coded_size bytes = size(c, rows, width);
  unsigned char *codes = (unsigned char *)out + bytes.metadata;
  int plane = kv_absmax_plane(c, width);
  memset(out, 0, bytes.codes + bytes.metadata);
  for (int g = 0, first = 0; first < width; g++, first += c->group) {
    int end = width - first < c->group ? width : first + c->group;
    float most = largest(end - first, row[0] + first);
    float scale = kv_absmax_scale(c, most);
    if (!kv_absmax_fits(c, most, scale)) return false;
    put_scale(c, g, scale, out);
    for (int i = first; i < end; i++)
      codes[i % plane] |= (unsigned char)(kv_absmax_code(c, scale, row[0][i])
                                          << i / plane * c->bits);
  }
  return true;
}

static void decode(const struct kv_kernels *kernels, const void *settings,
                   int rows, int width, const void *in, int member,
                   float *out) {
  const kv_minmax *c = settings;
  const unsigned char *codes =
      (const unsigned char *)in + size(c, rows, width).metadata;
  int plane = kv_absmax_plane(c, width);
  uint32_t ones = (1u << c->bits) - 1;
  (void)kernels, (void)member;
  for (int g = 0, i = 0; i < width; g++) {
    int end = width - i < c->group ? width : i + c->group;
    for (float scale = scale_at(c, g, in); i < end; i++) {
      uint32_t code = (uint32_t)codes[i % plane] >> i / plane * c->bits & ones;
      out[i] = kv_mul(kv_absmax_plain(c, code), scale);
    }
  }
}

const kv_format kv_format_absmax = {.name = "absmax",
                                    .settings_size = sizeof(kv_minmax),
                                    .members = kv_minmax_members_one,
                                    .size = size,
                                    .encode = encode,
                                    .decode = decode};
