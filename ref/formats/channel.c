/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "channel", KIVI's for keys: up to `group` rows share scale and
 * minimum in every channel. Codes and arithmetic: ref/formats/minmax.h.
 */
#include "ref/formats/minmax.h"
#include "ref/ground/arith.h"
#include "ref/kernels/kernels.h"
#include <assert.h>
#include <string.h>

static int members(const void *settings) {
  return ((const kv_minmax *)settings)->group;
}

static kv_coded_size size(const void *settings, int n, int width) {
  return (kv_coded_size){.codes = (size_t)n * kv_minmax_row(settings, width),
                         .metadata = (size_t)width * 4};
}

/* Channels first..first+n-1 of all rows; n at most a tile. */
static bool encode_tile(const kv_minmax *c, int rows, int width, int first,
                        int n, const float *const *row, char *out) {
  char *scale = out + 2 * (size_t)first, *min = scale + 2 * (size_t)width;
  char *codes = out + 4 * (size_t)width;
  float lo[KV_MINMAX_TILE], hi[KV_MINMAX_TILE];
  kv_minmax_ranges r;
  bool fits = true;
  for (int m = 0; m < rows; m++)
    for (int x = 0; x < n; x++) {
      float v = row[m][first + x];
      lo[x] = m == 0 ? v : kv_min(lo[x], v);
      hi[x] = m == 0 ? v : kv_max(hi[x], v);
    }
  for (int x = 0; x < n; x++)
    fits =
        kv_minmax_range(c, lo[x], hi[x], x, &r, scale + 2 * x, min + 2 * x) &&
        fits;
  if (!fits) return false;
  for (int m = 0; m < rows; m++)
    kv_minmax_codes(c, width, first, n, row[m] + first, &r,
                    codes + (size_t)m * kv_minmax_row(c, width));
  return true;
}

static bool encode(const void *settings, int rows, int width,
                   const float *const *row, void *out) {
  kv_coded_size bytes = size(settings, rows, width);
  assert(((const kv_minmax *)settings)->rule != KV_RULE_UNROUNDED);
  bool fits = true;
  memset(out, 0, bytes.codes + bytes.metadata);
  for (int x = 0; x < width; x += KV_MINMAX_TILE) {
    int n = width - x < KV_MINMAX_TILE ? width - x : KV_MINMAX_TILE;
    fits = encode_tile(settings, rows, width, x, n, row, out) && fits;
  }
  return fits;
}

static void decode(const kv_kernels *kernels, const void *settings, int rows,
                   int width, const void *in, int member, float *out) {
  const kv_minmax *c = settings;
  const char *scale = in, *min = scale + (size_t)width * 2;
  const char *codes = min + (size_t)width * 2;
  (void)rows;
  kernels->minmax(c->bits, width, 1,
                  codes + (size_t)member * kv_minmax_row(c, width), scale, min,
                  out);
}

static kv_format_shown shown(const void *settings, int width) {
  (void)settings;
  return (kv_format_shown){width, 2, width};
}

static void parts(const void *settings, int width, const void *in, int member,
                  uint8_t *code, void *scale, uint16_t *min) {
  kv_minmax_parts(settings, width, width, in, member, code, scale, min);
}

const kv_format kv_format_channel = {.name = "channel",
                                     .settings_size = sizeof(kv_minmax),
                                     .members = members,
                                     .size = size,
                                     .encode = encode,
                                     .decode = decode,
                                     .shown = shown,
                                     .parts = parts,
                                     .rules = kv_minmax_rules};
