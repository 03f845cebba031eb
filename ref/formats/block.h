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
  int32_t size;    /* elements of a block, at most KV_BLOCK_MOST */
  int32_t bits;    /* of a code: 4, 5 or 8 */
  int32_t element; /* a kv_block_element */
  int32_t scale;   /* a kv_block_scale */
  int32_t minimum; /* 1: blocks have one, fp16 */
  int32_t rule;    /* a kv_block_rule */
  float whole;     /* scale of the whole tensor, above 0; 1 unless a format
                      of kv_block_scaled has another */
} kv_blocked;

/* BLOCK(name, size, bits, element, scale, minimum, rule) */
#define KV_BLOCK_FORMATS(BLOCK)                                                \
  BLOCK(q8_0, 32, 8, INTEGER, F16, 0, LARGEST)                                 \
  BLOCK(q4_0, 32, 4, INTEGER, F16, 0, SIGNED)

/* Has the format a scale of the whole tensor? */
KV_FN int kv_block_scaled(const kv_blocked *c) {
  return c->rule >= KV_BLOCK_SIXTH;
}

/* --- bytes --------------------------------------------------------------- */

KV_FN int kv_block_count(const kv_blocked *c, int width) {
  return (width + c->size - 1) / c->size;
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
  int rest = width % c->size;
  return width / c->size * kv_block_bytes(c, c->size) + kv_block_bytes(c, rest);
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

/* What a code stands for before it is scaled, exact. */
KV_FN float kv_block_value(const kv_blocked *c, uint32_t code) {
  if (c->bits == 8) return (float)(int8_t)code;
  if (c->minimum) return (float)code;
  return (float)((int32_t)code - (1 << (c->bits - 1)));
}

/* The scale of block g of a row, and its minimum or 0; at: the row's metadata.
 */
KV_FN kv_range kv_block_range(const kv_blocked *c, int width, int g,
                              const uint8_t *at) {
  kv_range r;
  r.scale = kv_half_at(at + 2 * g);
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

/* --- choosing ------------------------------------------------------------ */

/* How a block is coded. */
typedef struct kv_block_fit {
  float scale, min; /* before rounding; the minimum is subtracted first */
  float by;         /* the factor of elements before they become codes */
} kv_block_fit;

/* The first element of the largest magnitude. */
KV_FN float kv_block_largest(int n, const float *x) {
  float of = 0, most = 0;
  for (int i = 0; i < n; i++) {
    float a = kv_float(kv_bits(x[i]) & 0x7fffffffu);
    if (a > most) most = a, of = x[i];
  }
  return of;
}

/* 1 / d; 0 where that is not finite. */
KV_FN float kv_block_inverse(float d) {
  float i = kv_div(1, d);
  return kv_finite(i) ? i : 0;
}

KV_FN kv_block_fit kv_block_fit_of(const kv_blocked *c, int n, const float *x) {
  kv_block_fit f = {0, 0, 0};
  float of = kv_block_largest(n, x), half = (float)(1 << (c->bits - 1));
  if (c->rule == KV_BLOCK_LARGEST)
    f.scale = kv_div(of < 0 ? -of : of, 127);
  else
    f.scale = kv_div(of, -half);
  f.by = kv_block_inverse(f.scale);
  return f;
}

/* The nearest integer to y, halves away from 0; |y| < 2^23. */
KV_FN float kv_block_away(float y) {
  float a = kv_float(kv_bits(y) & 0x7fffffffu), low = (float)(int32_t)a;
  float r = kv_sub(a, low) >= 0.5f ? kv_add(low, 1) : low;
  return y < 0 ? -r : r;
}

/* Code of x. */
KV_FN uint32_t kv_block_choose(const kv_blocked *c, const kv_block_fit *f,
                               float x) {
  float y = kv_mul(kv_sub(x, f->min), f->by);
  if (c->rule == KV_BLOCK_LARGEST)
    return (uint32_t)(int32_t)kv_block_away(y) & 0xffu;
  float half = (float)(1 << (c->bits - 1));
  uint32_t code = (uint32_t)(int32_t)kv_add(y, kv_add(half, 0.5f));
  uint32_t top = (1u << c->bits) - 1;
  return code < top ? code : top;
}

/* Stores scale and minimum of block g; 0: one is not finite as stored. */
KV_FN int kv_block_set(const kv_blocked *c, int width, int g,
                       const kv_block_fit *f, uint8_t *at) {
  kv_put_half(at + 2 * g, f->scale);
  if (c->minimum) kv_put_half(at + 2 * (kv_block_count(c, width) + g), f->min);
  return kv_finite(kv_round_f16(f->scale)) && kv_finite(kv_round_f16(f->min));
}

/* Codes block g of a row, x[0..n) its elements. at: the row's metadata; codes:
 * the row's. 0: it cannot be coded. */
KV_FN int kv_block_encode(const kv_blocked *c, int width, int g, int n,
                          const float *x, uint8_t *at, uint8_t *codes) {
  int each = kv_block_bytes(c, n), finite = 1;
  uint8_t *own = codes + g * kv_block_bytes(c, c->size);
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
  int g = i / c->size, first = g * c->size;
  int n = width - first < c->size ? width - first : c->size;
  kv_range r = kv_block_range(c, width, g, at);
  codes += g * kv_block_bytes(c, c->size);
  return kv_block_read(c, &r, kv_block_code(c, n, i - first, codes));
}

#endif
