/* SPDX-License-Identifier: Apache-2.0
 *
 * KIVI's formats: asymmetric min-max codes, fp16 scale and minimum.
 *
 *   channel: up to `group` rows share scale and minimum in every channel
 *   token:   `group` neighbouring elements of one row share them; the last
 *            run is shorter where group does not divide the width
 * With L = 2^bits - 1 and min, max over what shares (order: arithmetic 2):
 *   fp32 rule (fp16_ops = false), h = rounding to fp16:
 *     s = h((max - min) / L), m = h(min)
 *     code = rint(clamp((x - m) / s, 0, L)),  x^ = fma(code, s, m)
 *     (codes are chosen for the stored s and m, which decoding will use)
 *   the authors' fp16 rule (fp16_ops = true), x taken to h(x) first:
 *     s = h(h(max - min) / L), m = min
 *     code = rint(clamp(h(h(x - m) / s), 0, L)),  x^ = h(h(code * s) + m)
 *   where s = 0 every code is 0.
 * Encoding fails where s, m or what the largest code decodes to leaves fp16.
 *
 * A block: scales, minima (fp16 each), then the codes row by row, each row
 * ceil(width * bits / 8) bytes. A row is cut into 8 / bits planes of equal
 * width; byte i holds element i of every plane, the first in its low bits, so
 * that decoding is loops over neighbouring floats.
 *
 * code * s is exact in binary32 (4 bits times 11), so a product and a sum are
 * the fused operation to the bit and need no hardware for it. For the same
 * reason h(fp32 operation on fp16 values) is the fp16 operation: 24 bits are
 * at least 2 * 11 + 2.
 * Nothing here allocates. Cost: O(members * width).
 */
#include "ref/arith.h"
#include "ref/format.h"
#include <string.h>

enum { TILE = 64 }; /* channels coded at once */

static size_t row_bytes(const kv_coding *c, int width) {
  return ((size_t)width * (size_t)c->bits + 7) / 8;
}

static int runs_of(const kv_coding *c, int width) {
  return (width + c->group - 1) / c->group;
}

/* --- fp16 by integer selects, so that loops become vectors --------------- */

/* A finite half, exactly: its bits as a small binary32, times 2^112. */
static inline float half_at(const char *at, int i) {
  uint16_t h;
  memcpy(&h, at + 2 * (size_t)i, 2);
  float a = kv_mul(kv_float((uint32_t)(h & 0x7fffu) << 13), 0x1p112f);
  return kv_float(kv_bits(a) | (uint32_t)(h & 0x8000u) << 16);
}

static void put_half(char *at, float x) {
  uint16_t h = kv_to_f16(x);
  memcpy(at, &h, 2);
}

/* x rounded to fp16: at bit 13, or to multiples of 2^-24 where subnormal
 * (chosen by a mask: a branch around the sum would stop the vectors). */
static inline float to_half(float x) {
  uint32_t u = kv_bits(x), a = u & 0x7fffffffu;
  uint32_t normal = (a + 0xfffu + (a >> 13 & 1u)) & ~0x1fffu;
  uint32_t small = kv_bits(kv_sub(kv_add(kv_float(a), 0.5f), 0.5f));
  uint32_t mask = 0u - (a < 0x38800000u);
  uint32_t r = (small & mask) | (normal & ~mask);
  r = r < 0x47800000u ? r : 0x7f800000u;
  return kv_float(r | (u & 0x80000000u));
}

/* The same for multiples of 2^-24 that stay finite, as all that is decoded:
 * those below 2^-14 are halves already and keep their bits. */
static inline float grid_to_half(float x) {
  uint32_t u = kv_bits(x);
  return kv_float((u + 0xfffu + (u >> 13 & 1u)) & ~0x1fffu);
}

/* --- coding ------------------------------------------------------------- */

/* Metadata of up to TILE elements as stored; where the scale is 0, it stands
 * as 1 and the largest code as 0. */
typedef struct ranges {
  float scale[TILE], min[TILE], top[TILE];
} ranges;

/* From minimum and maximum into place i and the block's metadata; false where
 * they do not fit the stored type. */
static bool set_range(const kv_coding *c, float min, float max, int i,
                      ranges *r, char *scale_at, char *min_at) {
  float levels = (float)((1 << c->bits) - 1);
  if (c->fp16_ops) min = to_half(min), max = to_half(max);
  float width = kv_sub(max, min);
  if (c->fp16_ops) width = to_half(width);
  float scale = to_half(kv_div(width, levels));
  min = to_half(min);
  float top = kv_add(to_half(kv_mul(levels, scale)), min);
  put_half(scale_at, scale);
  put_half(min_at, min);
  r->scale[i] = scale > 0 ? scale : 1;
  r->min[i] = min;
  r->top[i] = scale > 0 ? levels : 0;
  return kv_finite(scale) && kv_finite(min) &&
         (!c->fp16_ops || kv_finite(to_half(top)));
}

static inline uint32_t clamp_round(float y, float top) {
  y = y > 0 ? y : 0;
  y = y < top ? y : top;
  return kv_bits(kv_add(y, 0x1p23f)) & 0xffu; /* rint: the lowest bits */
}

static void codes_of(const kv_coding *c, int n, const float *x, const ranges *r,
                     uint32_t *restrict code) {
  if (c->fp16_ops) {
    for (int i = 0; i < n; i++) {
      float y = to_half(kv_sub(to_half(x[i]), r->min[i]));
      code[i] = clamp_round(to_half(kv_div(y, r->scale[i])), r->top[i]);
    }
    return;
  }
  for (int i = 0; i < n; i++)
    code[i] =
        clamp_round(kv_div(kv_sub(x[i], r->min[i]), r->scale[i]), r->top[i]);
}

/* Elements first..first+n-1 of a row whose codes were zero; n <= TILE. */
static void put_codes(const kv_coding *c, int width, int first, int n,
                      const float *x, const ranges *r, char *row) {
  uint32_t code[TILE];
  int plane = (int)row_bytes(c, width);
  int at = first % plane, shift = first / plane * c->bits;
  codes_of(c, n, x, r, code);
  for (int i = 0; i < n; i++) {
    row[at] = (char)((unsigned char)row[at] | code[i] << shift);
    if (++at == plane) at = 0, shift += c->bits;
  }
}

static void read_codes(const kv_coding *c, int width, const char *row,
                       float *restrict out) {
  int plane = (int)row_bytes(c, width), mask = (1 << c->bits) - 1;
  const unsigned char *byte = (const unsigned char *)row;
  for (int from = 0, shift = 0; from < width; from += plane) {
    int n = width - from < plane ? width - from : plane;
    for (int i = 0; i < n; i++)
      out[from + i] = (float)(byte[i] >> shift & mask);
    shift += c->bits;
  }
}

/* --- channel: keys ------------------------------------------------------ */

static kv_coded_size channel_size(const kv_coding *c, int members, int width) {
  return (kv_coded_size){.codes = (size_t)members * row_bytes(c, width),
                         .metadata = (size_t)width * 4};
}

/* Channels first..first+n-1 of all rows; n <= TILE. */
static bool channel_tile(const kv_coding *c, int members, int width, int first,
                         int n, const float *const *row, char *out) {
  char *scale = out + 2 * (size_t)first, *min = scale + 2 * (size_t)width;
  char *codes = out + 4 * (size_t)width;
  float lo[TILE], hi[TILE];
  ranges r;
  bool fits = true;
  for (int m = 0; m < members; m++)
    for (int x = 0; x < n; x++) {
      float v = row[m][first + x];
      lo[x] = m == 0 ? v : kv_min(lo[x], v);
      hi[x] = m == 0 ? v : kv_max(hi[x], v);
    }
  for (int x = 0; x < n; x++)
    fits =
        set_range(c, lo[x], hi[x], x, &r, scale + 2 * x, min + 2 * x) && fits;
  if (!fits) return false;
  for (int m = 0; m < members; m++)
    put_codes(c, width, first, n, row[m] + first, &r,
              codes + (size_t)m * row_bytes(c, width));
  return true;
}

static bool channel_encode(const kv_coding *c, int members, int width,
                           const float *const *row, void *out) {
  kv_coded_size size = channel_size(c, members, width);
  bool fits = true;
  memset(out, 0, size.codes + size.metadata);
  for (int x = 0; x < width; x += TILE) {
    int n = width - x < TILE ? width - x : TILE;
    fits = channel_tile(c, members, width, x, n, row, out) && fits;
  }
  return fits;
}

static void channel_decode(const kv_coding *c, int members, int width,
                           const void *in, int member, float *restrict out) {
  const char *scale = in, *min = scale + (size_t)width * 2;
  const char *codes = min + (size_t)width * 2;
  (void)members;
  read_codes(c, width, codes + (size_t)member * row_bytes(c, width), out);
  if (c->fp16_ops) {
    for (int x = 0; x < width; x++)
      out[x] = grid_to_half(kv_add(
          grid_to_half(kv_mul(out[x], half_at(scale, x))), half_at(min, x)));
    return;
  }
  for (int x = 0; x < width; x++)
    out[x] = kv_add(kv_mul(out[x], half_at(scale, x)), half_at(min, x));
}

/* --- token: values ------------------------------------------------------ */

static kv_coded_size token_size(const kv_coding *c, int members, int width) {
  (void)members;
  return (kv_coded_size){.codes = row_bytes(c, width),
                         .metadata = (size_t)runs_of(c, width) * 4};
}

/* Elements first..end-1 share scale and minimum: run g of the row. */
static bool token_run(const kv_coding *c, int width, int g, const float *row,
                      int first, int end, char *out) {
  char *at = out + 2 * (size_t)g, *codes;
  int runs = runs_of(c, width);
  float lo = row[first], hi = lo;
  ranges r;
  codes = out + 4 * (size_t)runs;
  for (int i = first + 1; i < end; i++) {
    lo = kv_min(lo, row[i]);
    hi = kv_max(hi, row[i]);
  }
  if (!set_range(c, lo, hi, 0, &r, at, at + 2 * (size_t)runs)) return false;
  for (int i = 1; i < TILE && i < end - first; i++) {
    r.scale[i] = r.scale[0];
    r.min[i] = r.min[0];
    r.top[i] = r.top[0];
  }
  for (int i = first; i < end; i += TILE)
    put_codes(c, width, i, end - i < TILE ? end - i : TILE, row + i, &r, codes);
  return true;
}

static bool token_encode(const kv_coding *c, int members, int width,
                         const float *const *row, void *out) {
  kv_coded_size size = token_size(c, members, width);
  memset(out, 0, size.codes + size.metadata);
  for (int g = 0, first = 0; first < width; g++, first += c->group) {
    int end = width - first < c->group ? width : first + c->group;
    if (!token_run(c, width, g, row[0], first, end, out)) return false;
  }
  return true;
}

static void apply_run(const kv_coding *c, int n, float scale, float min,
                      float *x) {
  if (c->fp16_ops) {
    for (int i = 0; i < n; i++)
      x[i] = grid_to_half(kv_add(grid_to_half(kv_mul(x[i], scale)), min));
    return;
  }
  for (int i = 0; i < n; i++) x[i] = kv_add(kv_mul(x[i], scale), min);
}

static void token_decode(const kv_coding *c, int members, int width,
                         const void *in, int member, float *restrict out) {
  int runs = runs_of(c, width);
  const char *meta = in;
  (void)members;
  (void)member;
  read_codes(c, width, meta + (size_t)runs * 4, out);
  for (int g = 0; g < runs; g++) {
    int first = g * c->group, end = first + c->group;
    if (end > width) end = width;
    apply_run(c, end - first, half_at(meta, g), half_at(meta, runs + g),
              out + first);
  }
}

/* --- parts -------------------------------------------------------------- */

static int channel_scales(const kv_coding *c, int width) {
  (void)c;
  return width;
}

/* Both formats hold scales, minima, then rows of codes. */
static void parts(const kv_coding *c, int width, const void *in, int member,
                  uint8_t *code, uint16_t *scale, uint16_t *min) {
  int n = c->format->scales(c, width), plane = (int)row_bytes(c, width);
  const char *at = in;
  const unsigned char *row = (const unsigned char *)at + 4 * (size_t)n +
                             (size_t)member * (size_t)plane;
  memcpy(scale, at, 2 * (size_t)n);
  memcpy(min, at + 2 * (size_t)n, 2 * (size_t)n);
  for (int i = 0; i < width; i++)
    code[i] =
        (uint8_t)(row[i % plane] >> i / plane * c->bits & ((1 << c->bits) - 1));
}

int kv_coding_members(const kv_coding *c) {
  return c->format == &kv_format_channel ? c->group : 1;
}

const kv_format kv_format_channel = {.name = "channel",
                                     .size = channel_size,
                                     .encode = channel_encode,
                                     .decode = channel_decode,
                                     .scales = channel_scales,
                                     .parts = parts};
const kv_format kv_format_token = {.name = "token",
                                   .size = token_size,
                                   .encode = token_encode,
                                   .decode = token_decode,
                                   .scales = runs_of,
                                   .parts = parts};
