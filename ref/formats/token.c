/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "token", KIVI's for values and LeanKV's: a group is one row, of
 * which `group` neighbouring elements share scale and minimum. Codes and
 * arithmetic: ref/formats/minmax.h.
 */
#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include <string.h>

static int scales(const void *settings, int width) {
  return kv_minmax_runs(settings, width);
}

/* Elements first..end-1 share scale and minimum: run g of the row. */
static bool encode_run(const kv_minmax *c, int width, int g, const float *row,
                       int first, int end, char *out) {
  int runs = kv_minmax_runs(c, width);
  char *at = out + 2 * (size_t)g, *codes = out + 4 * (size_t)runs;
  float lo = row[first], hi = lo;
  kv_minmax_ranges r;
  for (int i = first + 1; i < end; i++) {
    lo = kv_min(lo, row[i]);
    hi = kv_max(hi, row[i]);
  }
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

static bool encode(const void *settings, int rows, int width,
                   const float *const *row, void *out) {
  const kv_minmax *c = settings;
  kv_coded_size bytes = kv_minmax_size_one(c, rows, width);
  memset(out, 0, bytes.codes + bytes.metadata);
  for (int g = 0, first = 0; first < width; g++, first += c->group) {
    int end = width - first < c->group ? width : first + c->group;
    if (!encode_run(c, width, g, row[0], first, end, out)) return false;
  }
  return true;
}

static void decode(const kv_kernels *kernels, const void *settings, int rows,
                   int width, const void *in, int member, float *out) {
  const kv_minmax *c = settings;
  size_t runs = (size_t)kv_minmax_runs(c, width);
  const char *scale = in;
  (void)rows, (void)member;
  kernels->minmax(c->bits, width, c->group, scale + 4 * runs, scale,
                  scale + 2 * runs, out);
}

static void parts(const void *settings, int width, const void *in, int member,
                  uint8_t *code, uint16_t *scale, uint16_t *min) {
  kv_minmax_parts(settings, scales(settings, width), width, in, member, code,
                  scale, min);
}

static bool in_place(const void *settings, int *bits, int *run) {
  const kv_minmax *c = settings;
  *bits = c->bits;
  *run = c->group;
  return true;
}

const kv_format kv_format_token = {.name = "token",
                                   .settings_size = sizeof(kv_minmax),
                                   .members = kv_minmax_members_one,
                                   .size = kv_minmax_size_one,
                                   .encode = encode,
                                   .decode = decode,
                                   .scales = scales,
                                   .parts = parts,
                                   .rules = kv_minmax_rules,
                                   .in_place = in_place};
