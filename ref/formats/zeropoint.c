/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "zeropoint", QServe's and Atom's: a group is one row, of which
 * `group` neighbouring elements share a scale and a zero point. A block:
 * scales, zero points (fp16 each), then codes. Arithmetic:
 * ref/formats/zeropoint.h, which both backends share. Cost: O(width) each way,
 * in plain loops.
 */
#include "ref/formats/zeropoint.h"
#include <string.h>

/* Codes elements first..end-1 into the planes of the row. */
static void put_codes(const kv_minmax *c, const kv_zeropoint *p, int width,
                      int first, int end, const float *x,
                      unsigned char *codes) {
  int plane = (int)kv_minmax_row(c, width);
  for (int i = first; i < end; i++)
    codes[i % plane] |=
        (unsigned char)(kv_zeropoint_code(c, p, x[i]) << i / plane * c->bits);
}

static bool encode(const void *settings, int rows, int width,
                   const float *const *row, void *out) {
  const kv_minmax *c = settings;
  kv_coded_size bytes = kv_minmax_size_one(c, rows, width);
  unsigned char *codes = (unsigned char *)out + bytes.metadata;
  const float *x = row[0];
  char *scale = out, *zero = scale + bytes.metadata / 2;
  memset(out, 0, bytes.codes + bytes.metadata);
  for (int first = 0; first < width; first += c->group, scale += 2, zero += 2) {
    int end = width - first < c->group ? width : first + c->group;
    float lo = x[first], hi = lo;
    for (int i = first + 1; i < end; i++) {
      lo = kv_min(lo, x[i]);
      hi = kv_max(hi, x[i]);
    }
    kv_zeropoint p = kv_zeropoint_of(c, lo, hi);
    if (!kv_zeropoint_fits(lo, hi, &p)) return false;
    kv_put_half(scale, p.scale);
    kv_put_half(zero, p.zero);
    put_codes(c, &p, width, first, end, x, codes);
  }
  return true;
}

static void decode(const struct kv_kernels *kernels, const void *settings,
                   int rows, int width, const void *in, int member,
                   float *out) {
  const kv_minmax *c = settings;
  size_t metadata = kv_minmax_size_one(c, rows, width).metadata;
  const char *scale = in, *zero = scale + metadata / 2;
  const unsigned char *codes = (const unsigned char *)in + metadata;
  int plane = (int)kv_minmax_row(c, width);
  uint32_t ones = (1u << c->bits) - 1;
  (void)kernels, (void)member;
  for (int i = 0; i < width; scale += 2, zero += 2) {
    int end = width - i < c->group ? width : i + c->group;
    kv_zeropoint p = {kv_half_at(scale), kv_half_at(zero)};
    for (float least = kv_zeropoint_least(&p); i < end; i++) {
      uint32_t code = (uint32_t)codes[i % plane] >> i / plane * c->bits & ones;
      out[i] = kv_fma((float)code, p.scale, least);
    }
  }
}

const kv_format kv_format_zeropoint = {.name = "zeropoint",
                                       .settings_size = sizeof(kv_minmax),
                                       .members = kv_minmax_members_one,
                                       .size = kv_minmax_size_one,
                                       .encode = encode,
                                       .decode = decode};
