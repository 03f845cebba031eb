/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "block": a row in blocks with scales. Contract and arithmetic:
 * ref/formats/block.h. Cost: O(width) each way, by plain loops.
 */
#include "ref/formats/block.h"
#include <string.h>

static int members(const void *settings) {
  (void)settings;
  return 1;
}

static kv_coded_size size(const void *settings, int rows, int width) {
  const kv_blocked *c = settings;
  (void)rows;
  return (kv_coded_size){.codes = (size_t)kv_block_codes(c, width),
                         .metadata = (size_t)kv_block_metadata(c, width)};
}

static bool encode(const void *settings, int rows, int width,
                   const float *const *row, void *out) {
  const kv_blocked *c = settings;
  uint8_t *at = out, *codes = at + kv_block_metadata(c, width);
  bool fits = true;
  (void)rows;
  memset(at, 0, (size_t)(codes - at));
  for (int g = 0, first = 0; first < width; g++, first += c->size) {
    int n = width - first < c->size ? width - first : c->size;
    fits &= kv_block_encode(c, width, g, n, row[0] + first, at, codes);
  }
  return fits;
}

static void decode(const struct kv_kernels *kernels, const void *settings,
                   int rows, int width, const void *in, int member,
                   float *out) {
  const kv_blocked *c = settings;
  const uint8_t *at = in, *codes = at + kv_block_metadata(c, width);
  (void)kernels, (void)rows, (void)member;
  for (int i = 0; i < width; i++)
    out[i] = kv_block_decode(c, width, i, at, codes);
}

const kv_format kv_format_block = {.name = "block",
                                   .settings_size = sizeof(kv_blocked),
                                   .members = members,
                                   .size = size,
                                   .encode = encode,
                                   .decode = decode};
