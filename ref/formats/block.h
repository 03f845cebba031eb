/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats that scale blocks of neighboring elements of a row, as engines ship
 * them: ggml's, OCP's mxfp4, nvfp4, and 8-bit floats with a scale of the whole
 * tensor. One implementation for C and CUDA; a format is one row of the table.
 * ref/FORMATS.md, section block, defines each rule to the bit and names its
 * source.
 *
 * A block of bytes holds a row: all scales, all minima, then the codes of each
 * block of elements. The last block is shorter if `size` does not divide the
 * width. Codes of n elements: 8 bits, a byte each; else the fifth bits, bit j
 * of element j, then nibbles, byte j with element j low and j + ceil(n / 2)
 * high.
 *
 * Functions are called by one thread and allocate nothing. Cost: O(elements).
 */
#ifndef KV_REF_FORMATS_BLOCK_H
#define KV_REF_FORMATS_BLOCK_H

#include "ref/formats/format.h"
#include "ref/formats/rules.h"

extern const kv_format kv_format_block;
struct kv_blocked;
struct kv_block_rows;
/* Can kernels read rows of that width as they are stored? Then *out says how.
 */
bool kv_block_in_place(const struct kv_blocked *c, int width,
                       struct kv_block_rows *out);

enum { KV_BLOCK_MOST = 32 }; /* most elements of a block */

/* What a code stands for, before its scale multiplies it. */
typedef enum kv_block_element {
  KV_ELEMENT_INTEGER, /* code less half of the codes; with a minimum, the code;
                         of 8 bits, the signed byte */
  KV_ELEMENT_IQ4NL,   /* a number of iq4_nl's list */
  KV_ELEMENT_E2M1,    /* floats */
  KV_ELEMENT_E4M3,
  KV_ELEMENT_E5M2
} kv_block_element;

/* How a scale is stored. */
typedef enum kv_block_scale {
  KV_SCALE_NONE,
  KV_SCALE_F16,
  KV_SCALE_E8M0, /* a byte e: 2^(e - 127) */
  KV_SCALE_E4M3
} kv_block_scale;

/* How scale and codes are chosen. */
typedef enum kv_block_rule {
  KV_BLOCK_LARGEST,
  KV_BLOCK_SIGNED,
  KV_BLOCK_RANGE,
  KV_BLOCK_REGRESSED,
  KV_BLOCK_FLOOR,
  KV_BLOCK_CEIL,
  KV_BLOCK_SIXTH,
  KV_BLOCK_FOUR_SIX,
  KV_BLOCK_WHOLE
} kv_block_rule;

/* A format, and the settings of the format block for needs.coding. */
typedef struct kv_blocked {
  int32_t log;     /* 2^log elements in a block, at most KV_BLOCK_MOST */
  int32_t bits;    /* of a code: 4, 5 or 8 */
  int32_t element; /* a kv_block_element */
  int32_t scale;   /* a kv_block_scale */
  int32_t minimum; /* 1: blocks have one, fp16 */
  int32_t rule;    /* a kv_block_rule */
  float whole;     /* scale of the whole tensor, above 0; 1 unless a format
                      of kv_block_scaled has another */
} kv_blocked;

/* BLOCK(name, log, bits, element, scale, minimum, rule) */
#define KV_BLOCK_FORMATS(BLOCK)                                                \
  BLOCK(q8_0, 5, 8, INTEGER, F16, 0, LARGEST)                                  \
  BLOCK(q5_1, 5, 5, INTEGER, F16, 1, RANGE)                                    \
  BLOCK(q5_0, 5, 5, INTEGER, F16, 0, SIGNED)                                   \
  BLOCK(q4_1, 5, 4, INTEGER, F16, 1, RANGE)                                    \
  BLOCK(q4_0, 5, 4, INTEGER, F16, 0, SIGNED)                                   \
  BLOCK(iq4_nl, 5, 4, IQ4NL, F16, 0, REGRESSED)                                \
  BLOCK(mxfp4, 5, 4, E2M1, E8M0, 0, FLOOR)                                     \
  BLOCK(fp4_e2m1, 4, 4, E2M1, E8M0, 0, CEIL)                                   \
  BLOCK(nvfp4, 4, 4, E2M1, E4M3, 0, SIXTH)                                     \
  BLOCK(nvfp4_4over6, 4, 4, E2M1, E4M3, 0, FOUR_SIX)                           \
  BLOCK(fp8_e4m3, 0, 8, E4M3, NONE, 0, WHOLE)                                  \
  BLOCK(fp8_e5m2, 0, 8, E5M2, NONE, 0, WHOLE)

/* Has the format a scale of the whole tensor? */
KV_FN int kv_block_scaled(const kv_blocked *c) {
  return c->rule >= KV_BLOCK_SIXTH;
}

/* --- bytes --------------------------------------------------------------- */

KV_FN int kv_block_size(const kv_blocked *c) { return 1 << c->log; }

/* Blocks of a row. */
KV_FN int kv_block_count(const kv_blocked *c, int width) {
  return (width + kv_block_size(c) - 1) >> c->log;
}

/* Bytes of a stored scale, and of the scales and minima of a row. */
KV_FN int kv_block_number(const kv_blocked *c) {
  return c->scale == KV_SCALE_NONE ? 0 : c->scale == KV_SCALE_F16 ? 2 : 1;
}
KV_FN int kv_block_metadata(const kv_blocked *c, int width) {
  return kv_block_count(c, width) * (kv_block_number(c) + 2 * c->minimum);
}

/* Bytes of the codes of n elements of a block, and of a row. */
KV_FN int kv_block_bytes(const kv_blocked *c, int n) {
  if (c->bits == 8) return n;
  return (c->bits == 5 ? (n + 7) / 8 : 0) + (n + 1) / 2;
}
KV_FN int kv_block_codes(const kv_blocked *c, int width) {
  int rest = width & (kv_block_size(c) - 1);
  return (width >> c->log) * kv_block_bytes(c, kv_block_size(c)) +
         kv_block_bytes(c, rest);
}

/* Code of element i of n. */
KV_FN uint32_t kv_block_code(const kv_blocked *c, int n, int i,
                             const uint8_t *codes) {
  int half = (n + 1) / 2, low = i < half ? i : i - half;
  uint32_t fifth = 0;
  if (c->bits == 8) return codes[i];
  if (c->bits == 5) {
    fifth = (uint32_t)codes[i / 8] >> i % 8 & 1u;
    codes += (n + 7) / 8;
  }
  return fifth << 4 | (codes[low] >> (i < half ? 0 : 4) & 15u);
}

/* Stores it; the block's codes must be zero before. */
KV_FN void kv_block_put(const kv_blocked *c, int n, int i, uint32_t code,
                        uint8_t *codes) {
  int half = (n + 1) / 2, low = i < half ? i : i - half;
  if (c->bits == 5) {
    codes[i / 8] = (uint8_t)(codes[i / 8] | code >> 4 << i % 8);
    codes += (n + 7) / 8;
    code &= 15u;
  }
  if (c->bits == 8)
    codes[i] = (uint8_t)code;
  else
    codes[low] = (uint8_t)(codes[low] | code << (i < half ? 0 : 4));
}

/* --- reading ------------------------------------------------------------- */

/* Number i of iq4_nl's list, of which these are the bytes. */
KV_FN float kv_block_iq4nl(uint32_t i) {
  uint64_t low = 0xf6eaddcfbfad9881u, high = 0x7159453526190d01u;
  return (float)(int8_t)((i < 8 ? low : high) >> 8 * (i % 8) & 0xffu);
}

/* The value of a code of e2m1: a sign, two bits of exponent, one of mantissa.
 * The nibbles are twice the magnitudes. */
KV_FN float kv_block_e2m1(uint32_t code) {
  float a = kv_mul((float)(0xc8643210u >> 4 * (code & 7u) & 15u), 0.5f);
  return code & 8u ? -a : a;
}

/* What a code stands for before it is scaled, exact. */
KV_FN float kv_block_value(const kv_blocked *c, uint32_t code) {
  if (c->element == KV_ELEMENT_IQ4NL) return kv_block_iq4nl(code);
  if (c->element == KV_ELEMENT_E2M1) return kv_block_e2m1(code);
  if (c->element == KV_ELEMENT_E4M3) return kv_absmax_float(KV_RULE_E4M3, code);
  if (c->element == KV_ELEMENT_E5M2) return kv_absmax_float(KV_RULE_E5M2, code);
  if (c->bits == 8) return (float)(int8_t)code;
  if (c->minimum) return (float)code;
  return (float)((int32_t)code - (1 << (c->bits - 1)));
}

/* A stored scale; at: its bytes. */
KV_FN float kv_block_scale_at(const kv_blocked *c, const uint8_t *at) {
  if (c->scale == KV_SCALE_NONE) return 1;
  if (c->scale == KV_SCALE_F16) return kv_half_at(at);
  if (c->scale == KV_SCALE_E4M3) return kv_absmax_float(KV_RULE_E4M3, *at);
  return kv_float(*at ? (uint32_t)*at << 23 : 0x00400000u); /* 2^-127 */
}

/* The scale of block g of a row, and its minimum or 0; at: the row's metadata.
 */
KV_FN kv_range kv_block_range(const kv_blocked *c, int width, int g,
                              const uint8_t *at) {
  kv_range r;
  r.scale = kv_block_scale_at(c, at + kv_block_number(c) * g);
  r.other = 0;
  if (c->minimum) r.other = kv_half_at(at + 2 * (kv_block_count(c, width) + g));
  return r;
}

/* x^ of a code. */
KV_FN float kv_block_read(const kv_blocked *c, const kv_range *r,
                          uint32_t code) {
  float x = kv_mul(kv_mul(kv_block_value(c, code), r->scale), c->whole);
  return c->minimum ? kv_add(x, r->other) : x;
}

/* Is |x| above the largest number that the block of element i can hold? Only
 * formats with a scale of the tensor clip; of nvfp4 a block whose scale is the
 * largest. at: the row's metadata. */
KV_FN int kv_block_clips(const kv_blocked *c, int width, int i, float x,
                         const uint8_t *at) {
  uint32_t top = c->element == KV_ELEMENT_E2M1   ? 7
                 : c->element == KV_ELEMENT_E4M3 ? 0x7e
                                                 : 0x7b;
  int g = i >> c->log;
  if (!kv_block_scaled(c)) return 0;
  if (c->scale == KV_SCALE_E4M3 && at[g] != 0x7e) return 0;
  kv_range r = kv_block_range(c, width, g, at);
  return kv_float(kv_bits(x) & 0x7fffffffu) > kv_block_read(c, &r, top);
}

/* --- choosing ------------------------------------------------------------ */

/* How a block is coded. */
typedef struct kv_block_fit {
  float scale, min; /* before they are rounded; the minimum is subtracted */
  float by;         /* the factor of elements before they become codes */
} kv_block_fit;

KV_FN float kv_block_abs(float x) { return kv_float(kv_bits(x) & 0x7fffffffu); }

/* 1 / d; 0 where that is not finite. */
KV_FN float kv_block_inverse(float d) {
  float i = kv_div(1, d);
  return kv_finite(i) ? i : 0;
}

/* The first element of the largest magnitude. */
KV_FN float kv_block_largest(int n, const float *x) {
  float of = 0;
  for (int i = 0; i < n; i++)
    if (kv_block_abs(x[i]) > kv_block_abs(of)) of = x[i];
  return of;
}

/* The nearest integer to y, halves away from 0; |y| < 2^23. */
KV_FN float kv_block_away(float y) {
  float a = kv_block_abs(y), low = (float)(int32_t)a;
  float r = kv_sub(a, low) >= 0.5f ? kv_add(low, 1) : low;
  return y < 0 ? -r : r;
}

/* The nearest number of iq4_nl's list, of two the larger; the sum of two
 * neighbors is exact, and so is 2 y. */
KV_FN uint32_t kv_block_near(float y) {
  uint32_t i = 0;
  while (i < 15 &&
         kv_mul(2, y) >= kv_add(kv_block_iq4nl(i), kv_block_iq4nl(i + 1)))
    i++;
  return i;
}

/* The code of the e2m1 nearest to y, at most 6. Ties go away from 0, or else to
 * the even code. */
KV_FN uint32_t kv_block_to_e2m1(float y, int away) {
  float a = kv_block_abs(y);
  uint32_t code = a >= 0.75f;
  code += a >= 1.75f;
  code += a >= 3.5f;
  code += away ? a >= 0.25f : a > 0.25f;
  code += away ? a >= 1.25f : a > 1.25f;
  code += away ? a >= 2.5f : a > 2.5f;
  code += away ? a >= 5 : a > 5;
  return code | (away ? (uint32_t)(y < 0) << 3 : kv_bits(y) >> 31 << 3);
}

/* 2^e of a binary32's exponent bits e, 0 to 254; bits 0 mean 2^-127. */
KV_FN float kv_block_power(int32_t e) {
  return kv_float(e > 0 ? (uint32_t)e << 23 : 0x00400000u);
}

/* iq4_nl: codes by -127 for the largest, then the scale that fits them best. */
KV_FN void kv_block_regress(int n, const float *x, kv_block_fit *f) {
  float of = kv_block_largest(n, x), xq = 0, qq = 0;
  if (kv_block_abs(of) < 1e-15f) return;
  f->by = kv_div(1, kv_div(of, -127));
  for (int i = 0; i < n; i++) {
    float q = kv_block_iq4nl(kv_block_near(kv_mul(f->by, x[i])));
    float wq = kv_mul(kv_mul(x[i], x[i]), q);
    xq = kv_add(xq, kv_mul(wq, x[i]));
    qq = kv_add(qq, kv_mul(wq, q));
  }
  f->scale = qq > 0 ? kv_div(xq, qq) : 0;
}

/* nvfp4: f by a largest magnitude and the reciprocal of 6 or 4; RN(f s) is what
 * elements are divided by. */
KV_FN kv_block_fit kv_block_part(float whole, float most, float of) {
  float g = kv_div(1, whole);
  float y = kv_mul(g, kv_mul(most, kv_div(1, of)));
  kv_block_fit f = {0, 0, 0};
  f.scale = kv_absmax_float(KV_RULE_E4M3, kv_to_f8(y, 3, 7, 0x7e));
  if (f.scale > 0) f.by = kv_div(1, kv_mul(f.scale, kv_div(1, g)));
  return f;
}

/* 4over6: the sum of squared errors, by pairs of elements. */
KV_FN float kv_block_error(int n, const float *x, float by) {
  float sum = 0, pair = 0, back = by > 0 ? kv_div(1, by) : 0;
  for (int i = 0; i < n; i++) {
    float q = kv_block_e2m1(kv_block_to_e2m1(kv_mul(x[i], by), 0));
    float e = kv_sub(kv_mul(q, back), x[i]);
    float square = kv_mul(e, e);
    pair = i % 2 ? kv_add(pair, square) : square;
    if (i % 2 || i + 1 == n) sum = kv_add(sum, pair);
  }
  return sum;
}

KV_FN kv_block_fit kv_block_four_six(float whole, float most, int n,
                                     const float *x) {
  kv_block_fit six = kv_block_part(whole, most, 6);
  kv_block_fit four = kv_block_part(whole, most, 4);
  return kv_block_error(n, x, four.by) < kv_block_error(n, x, six.by) ? four
                                                                      : six;
}

/* Least and largest by < and >, from the first element on. */
KV_FN void kv_block_ends(int n, const float *x, float *lo, float *hi) {
  *lo = *hi = x[0];
  for (int i = 1; i < n; i++) {
    if (x[i] < *lo) *lo = x[i];
    if (x[i] > *hi) *hi = x[i];
  }
}

KV_FN kv_block_fit kv_block_fit_of(const kv_blocked *c, int n, const float *x) {
  kv_block_fit f = {0, 0, 0};
  float of = kv_block_largest(n, x), most = kv_block_abs(of), hi;
  int32_t e = (int32_t)(kv_bits(most) >> 23);
  switch (c->rule) {
  case KV_BLOCK_LARGEST:
    f.scale = kv_div(most, 127);
    break;
  case KV_BLOCK_SIGNED:
    f.scale = kv_div(of, -(float)(1 << (c->bits - 1)));
    break;
  case KV_BLOCK_RANGE:
    kv_block_ends(n, x, &f.min, &hi);
    f.scale = kv_div(kv_sub(hi, f.min), (float)((1 << c->bits) - 1));
    break;
  case KV_BLOCK_REGRESSED:
    kv_block_regress(n, x, &f);
    return f;
  case KV_BLOCK_FLOOR:
    f.scale = kv_block_power(e - 2);
    break;
  case KV_BLOCK_CEIL:
    most = kv_max(kv_div(most, 6), 1e-10f);
    e = (int32_t)(kv_bits(most) >> 23) + ((kv_bits(most) & 0x7fffffu) != 0);
    f.scale = kv_block_power(e);
    break;
  case KV_BLOCK_SIXTH:
    return kv_block_part(c->whole, most, 6);
  case KV_BLOCK_FOUR_SIX:
    return kv_block_four_six(c->whole, most, n, x);
  default: /* KV_BLOCK_WHOLE stores no scale */
    f.scale = 1;
  }
  f.by = kv_block_inverse(f.scale);
  return f;
}

/* Code of x. */
KV_FN uint32_t kv_block_choose(const kv_blocked *c, const kv_block_fit *f,
                               float x) {
  float y = kv_mul(kv_sub(x, f->min), f->by);
  if (c->element == KV_ELEMENT_E4M3)
    return kv_to_f8(kv_div(x, c->whole), 3, 7, 0x7e);
  if (c->element == KV_ELEMENT_E5M2)
    return kv_to_f8(kv_div(x, c->whole), 2, 15, 0x7b);
  if (c->element == KV_ELEMENT_E2M1)
    return kv_block_to_e2m1(kv_mul(x, f->by), c->rule == KV_BLOCK_CEIL);
  if (c->element == KV_ELEMENT_IQ4NL) return kv_block_near(kv_mul(x, f->by));
  if (c->bits == 8) return (uint32_t)(int32_t)kv_block_away(y) & 0xffu;
  float half = c->minimum ? 0 : (float)(1 << (c->bits - 1));
  uint32_t code = (uint32_t)(int32_t)kv_add(y, kv_add(half, 0.5f));
  uint32_t top = (1u << c->bits) - 1;
  return code < top ? code : top;
}

/* Stores scale and minimum of block g; 0: a number is not finite as stored, or
 * the factor is not. */
KV_FN int kv_block_set(const kv_blocked *c, int width, int g,
                       const kv_block_fit *f, uint8_t *at) {
  uint8_t *to = at + kv_block_number(c) * g;
  if (c->scale == KV_SCALE_F16) kv_put_half(to, f->scale);
  if (c->scale == KV_SCALE_E8M0) *to = (uint8_t)(kv_bits(f->scale) >> 23);
  if (c->scale == KV_SCALE_E4M3) *to = (uint8_t)kv_to_f8(f->scale, 3, 7, 0x7e);
  if (c->minimum) kv_put_half(at + 2 * (kv_block_count(c, width) + g), f->min);
  float scale = c->scale == KV_SCALE_F16 ? kv_round_f16(f->scale) : f->scale;
  return kv_finite(scale) && kv_finite(kv_round_f16(f->min)) &&
         kv_finite(f->by);
}

/* Codes block g of a row, x[0..n) its elements. at: the row's metadata; codes:
 * the row's. 0: it cannot be coded. */
KV_FN int kv_block_encode(const kv_blocked *c, int width, int g, int n,
                          const float *x, uint8_t *at, uint8_t *codes) {
  int each = kv_block_bytes(c, n), finite = 1;
  uint8_t *own = codes + g * kv_block_bytes(c, kv_block_size(c));
  for (int i = 0; i < n; i++) finite &= kv_finite(x[i]);
  for (int i = 0; i < each; i++) own[i] = 0;
  if (!finite) return 0;
  kv_block_fit f = kv_block_fit_of(c, n, x);
  if (!kv_block_set(c, width, g, &f, at)) return 0;
  for (int i = 0; i < n; i++)
    kv_block_put(c, n, i, kv_block_choose(c, &f, x[i]), own);
  return 1;
}

/* Element i of a row. */
KV_FN float kv_block_decode(const kv_blocked *c, int width, int i,
                            const uint8_t *at, const uint8_t *codes) {
  int g = i >> c->log, first = g << c->log, size = kv_block_size(c);
  int n = width - first < size ? width - first : size;
  codes += g * kv_block_bytes(c, size);
  uint32_t code = kv_block_code(c, n, i - first, codes);
  kv_range r = kv_block_range(c, width, g, at);
  return kv_block_read(c, &r, code);
}

#endif
