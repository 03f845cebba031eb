/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "token": a group is one row, and `group` neighboring elements of
 * it share a scale, and a minimum or zero point, by any rule of
 * ref/formats/rules.h. A block has all scales, then all minima or zero points,
 * then the codes in the layout of ref/formats/minmax.h. Cost: O(width) each
 * way. Kernels code min-max codes in tiles; plain loops code the others.
 */
#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include <string.h>

static int members(const void *settings) {
  (void)settings;
  return 1;
}

static kv_coded_size size(const void *settings, int rows, int width) {
  const kv_minmax *c = settings;
  (void)rows;
  return (kv_coded_size){
      .codes = kv_minmax_row(c, width),
      .metadata = (size_t)(kv_minmax_runs(c, width) * kv_range_bytes(c))};
}

/* Codes elements first..end-1, run g of the row, by a min-max rule. lo and hi
 * are the smallest and the largest of them. */
static bool in_tiles(const kv_minmax *c, int width, int g, const float *row,
                     int first, int end, float lo, float hi, char *out) {
  int runs = kv_minmax_runs(c, width);
  char *at = out + 2 * (size_t)g, *codes = out + 4 * (size_t)runs;
  kv_minmax_ranges r;
  if (!kv_minmax_range(c, lo, hi, 0, &r, at, at + 2 * (size_t)runs))
    return false;
  for (int i = 1; i < KV_MINMAX_TILE && i < end - first; i++) {
    r.scale[i] = r.scale[0];
    r.min[i] = r.min[0];
    r.top[i] = r.top[0];
  }
  for (int i = first; i < end; i += KV_MINMAX_TILE)
    kv_minmax_codes(c, width, i,
                    end - i < KV_MINMAX_TILE ? end - i : KV_MINMAX_TILE,
                    row + i, &r, codes);
  return true;
}

static void put(const kv_minmax *c, float x, char *to) {
  if (kv_range_number(c) == 2)
    kv_put_half(to, x);
  else
    memcpy(to, &x, sizeof x);
}

static float get(const kv_minmax *c, const char *from) {
  float x;
  if (kv_range_number(c) == 2) return kv_half_at(from);
  memcpy(&x, from, sizeof x);
  return x;
}

/* The same by the other rules. */
static bool in_line(const kv_minmax *c, int width, int g, const float *row,
                    int first, int end, float lo, float hi, char *out) {
  size_t each = (size_t)kv_range_number(c),
         runs = (size_t)kv_minmax_runs(c, width);
  char *at = out + each * (size_t)g;
  unsigned char *codes = (unsigned char *)out + size(c, 1, width).metadata;
  int plane = (int)kv_minmax_row(c, width);
  kv_range r = kv_range_of(c, lo, hi);
  if (!kv_range_fits(c, lo, hi, &r)) return false;
  put(c, r.scale, at);
  if (!kv_rule_symmetric(c->rule)) put(c, r.other, at + each * runs);
  for (int i = first; i < end; i++)
    codes[i % plane] |=
        (unsigned char)(kv_range_code(c, &r, row[i]) << i / plane * c->bits);
  return true;
}

static bool encode(const void *settings, int rows, int width,
                   const float *const *row, void *out) {
  const kv_minmax *c = settings;
  kv_coded_size bytes = size(c, rows, width);
  bool tiles = kv_rule_minmax(c->rule), fits = true;
  memset(out, 0, bytes.codes + bytes.metadata);
  for (int g = 0, first = 0; fits && first < width; g++, first += c->group) {
    int end = width - first < c->group ? width : first + c->group;
    float lo = row[0][first], hi = lo;
    for (int i = first + 1; i < end; i++) {
      lo = kv_min(lo, row[0][i]);
      hi = kv_max(hi, row[0][i]);
    }
    fits = (tiles ? in_tiles : in_line)(c, width, g, row[0], first, end, lo, hi,
                                        out);
  }
  return fits;
}

/* Decodes a row by a rule for which there is no kernel. */
static void read_row(const kv_minmax *c, int width, const char *in,
                     float *out) {
  size_t each = (size_t)kv_range_number(c),
         runs = (size_t)kv_minmax_runs(c, width);
  const unsigned char *codes =
      (const unsigned char *)in + size(c, 1, width).metadata;
  int plane = (int)kv_minmax_row(c, width);
  uint32_t ones = (1u << c->bits) - 1;
  for (int i = 0; i < width; in += each) {
    int end = width - i < c->group ? width : i + c->group;
    kv_range r = {get(c, in), 0};
    if (!kv_rule_symmetric(c->rule)) r.other = get(c, in + each * runs);
    for (; i < end; i++)
      out[i] = kv_range_read(
          c, &r, (uint32_t)codes[i % plane] >> i / plane * c->bits & ones);
  }
}

static void decode(const kv_kernels *kernels, const void *settings, int rows,
                   int width, const void *in, int member, float *out) {
  const kv_minmax *c = settings;
  size_t runs = (size_t)kv_minmax_runs(c, width);
  const char *scale = in;
  (void)rows, (void)member;
  if (!kv_rule_minmax(c->rule)) {
    read_row(c, width, in, out);
    return;
  }
  kernels->minmax(c->bits, width, c->group, scale + 4 * runs, scale,
                  scale + 2 * runs, out);
}

/* Only min-max codes. */
static kv_format_shown shown(const void *settings, int width) {
  const kv_minmax *c = settings;
  int n = kv_minmax_runs(c, width);
  return kv_rule_minmax(c->rule) ? (kv_format_shown){n, 2, n}
                                 : (kv_format_shown){0, 0, 0};
}

static void parts(const void *settings, int width, const void *in, int member,
                  uint8_t *code, void *scale, uint16_t *min) {
  kv_minmax_parts(settings, shown(settings, width).scales, width, in, member,
                  code, scale, min);
}

static bool in_place(const void *settings, int *bits, int *run) {
  const kv_minmax *c = settings;
  *bits = c->bits;
  *run = c->group;
  return kv_rule_minmax(c->rule);
}

const kv_format kv_format_token = {.name = "token",
                                   .settings_size = sizeof(kv_minmax),
                                   .members = members,
                                   .size = size,
                                   .encode = encode,
                                   .decode = decode,
                                   .shown = shown,
                                   .parts = parts,
                                   .rules = kv_minmax_rules,
                                   .in_place = in_place};
