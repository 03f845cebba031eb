/* SPDX-License-Identifier: Apache-2.0
 *
 * Min-max codes. Contract: ref/formats/minmax.h, which defines them.
 */
#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include <string.h>

size_t kv_minmax_row(const kv_minmax *c, int width) {
  return ((size_t)width * (size_t)c->bits + 7) / 8;
}

int kv_minmax_runs(const kv_minmax *c, int width) {
  return (width + c->group - 1) / c->group;
}

bool kv_minmax_range(const kv_minmax *c, float min, float max, int i,
                     kv_minmax_ranges *r, char *scale_at, char *min_at) {
  kv_range of = kv_minmax_run(c, min, max), by = of;
  bool codes = of.scale > 0;
  if (c->rule == KV_RULE_UNROUNDED) by = kv_minmax_unrounded(c, min, max);
  kv_put_half(scale_at, of.scale);
  kv_put_half(min_at, of.other);
  r->scale[i] = codes ? by.scale : 1;
  r->min[i] = by.other;
  r->top[i] = codes ? (float)((1 << c->bits) - 1) : 0;
  return kv_range_fits(c, min, max, &of);
}

static inline uint32_t clamp_round(float y, float top) {
  y = y > 0 ? y : 0;
  y = y < top ? y : top;
  return kv_bits(kv_add(y, 0x1p23f)) & 0xffu; /* rint: the lowest bits */
}

static void codes_of(const kv_minmax *c, int n, const float *x,
                     const kv_minmax_ranges *r, uint32_t *restrict code) {
  if (c->rule == KV_RULE_UNROUNDED) {
    for (int i = 0; i < n; i++)
      code[i] =
          clamp_round(kv_mul(kv_sub(x[i], r->min[i]), r->scale[i]), r->top[i]);
    return;
  }
  if (c->rule == KV_RULE_FP16) {
    for (int i = 0; i < n; i++) {
      float y = kv_round_f16(kv_sub(kv_round_f16(x[i]), r->min[i]));
      code[i] = clamp_round(kv_round_f16(kv_div(y, r->scale[i])), r->top[i]);
    }
    return;
  }
  for (int i = 0; i < n; i++)
    code[i] =
        clamp_round(kv_div(kv_sub(x[i], r->min[i]), r->scale[i]), r->top[i]);
}

void kv_minmax_codes(const kv_minmax *c, int width, int first, int n,
                     const float *x, const kv_minmax_ranges *r, char *row) {
  uint32_t code[KV_MINMAX_TILE];
  int plane = (int)kv_minmax_row(c, width);
  int at = first % plane, shift = first / plane * c->bits;
  codes_of(c, n, x, r, code);
  for (int i = 0; i < n; i++) {
    row[at] = (char)((unsigned char)row[at] | code[i] << shift);
    if (++at == plane) at = 0, shift += c->bits;
  }
}

void kv_minmax_parts(const kv_minmax *c, int scales, int width, const void *in,
                     int member, uint8_t *code, void *scale, uint16_t *min) {
  size_t n = (size_t)scales, plane = kv_minmax_row(c, width);
  const char *at = in;
  const unsigned char *row =
      (const unsigned char *)at + 4 * n + (size_t)member * plane;
  memcpy(scale, at, 2 * n);
  memcpy(min, at + 2 * n, 2 * n);
  for (size_t i = 0; i < (size_t)width; i++)
    code[i] =
        (uint8_t)((unsigned)row[i % plane] >> i / plane * (size_t)c->bits &
                  ((1u << c->bits) - 1));
}

#define CODE(y) "rint(clamp(" y ", 0, 2^bits - 1)), 0 where scale is 0"
#define DECODED "fma(code, scale, min) from the stored scale and minimum"
#define SHARE                                                                  \
  "; a row is one block of the page table, as wide as the codes where each "   \
  "channel has its own, else one for each run of `group` elements"

kv_format_rules kv_minmax_rules(const void *settings) {
  const kv_minmax *c = settings;
  static const kv_format_rules fp32 = {
      .code = CODE("(x - min) / scale"),
      .scale = "h((max - min) / (2^bits - 1)), max and min by rule 2 of the "
               "numbers that share it" SHARE,
      .min = "h(min) of the same",
      .decoded = DECODED};
  static const kv_format_rules unrounded = {
      .code = "rint(clamp((x - min) * (1 / ((max - min) / (2^bits - 1))), 0, "
              "2^bits - 1)), 0 where scale is 0; max and min by rule 2 of the "
              "numbers that share them, in binary32, each operation rounded",
      .scale = "h((max - min) / (2^bits - 1)), max and min as for a code" SHARE,
      .min = "h(min) of the same",
      .decoded = DECODED};
  static const kv_format_rules fp16 = {
      .code = CODE("h(h(h(x) - min) / scale)"),
      .scale = "h(h(max - min) / (2^bits - 1)), max and min by rule 2 of the "
               "numbers that share it, rounded by h first" SHARE,
      .min = "h(min) of the same",
      .decoded = DECODED};
  if (!kv_rule_minmax(c->rule)) return (kv_format_rules){.code = NULL};
  if (c->rule == KV_RULE_UNROUNDED) return unrounded;
  return c->rule == KV_RULE_FP16 ? fp16 : fp32;
}
