/* SPDX-License-Identifier: Apache-2.0
 *
 * The format "block": a row in blocks with scales. Contract and arithmetic:
 * ref/formats/block.h. Cost: O(width) each way, by plain loops.
 */
#include "ref/formats/block.h"
#include "ref/kernels/kernels.h"
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
  int size = kv_block_size(c);
  bool fits = true;
  (void)rows;
  memset(at, 0, (size_t)(codes - at));
  for (int g = 0, first = 0; first < width; g++, first += size) {
    int n = width - first < size ? width - first : size;
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

bool kv_block_in_place(const kv_blocked *c, int width, kv_block_rows *out) {
  bool byte = c->bits == 8 && c->element == KV_ELEMENT_INTEGER;
  if (width < 64 || width % KV_BLOCK_MOST || c->minimum) return false;
  *out = (kv_block_rows){.bits = c->bits, .log = c->log, .whole = c->whole};
  out->scale = c->scale == KV_SCALE_F16    ? KV_BLOCK_F16
               : c->scale == KV_SCALE_E8M0 ? KV_BLOCK_E8M0
                                           : KV_BLOCK_E4M3;
  for (uint32_t i = 0; i < 16; i++) out->number[i] = kv_block_value(c, i);
  return byte || c->bits == 4;
}

/* --- for inspection ------------------------------------------------------ */

static kv_format_shown shown(const void *settings, int width) {
  const kv_blocked *c = settings;
  int n = kv_block_count(c, width), each = kv_block_number(c);
  return (kv_format_shown){each ? n : 0, each ? each : 1, c->minimum ? n : 0};
}

static void parts(const void *settings, int width, const void *in, int member,
                  uint8_t *code, void *scale, uint16_t *min) {
  const kv_blocked *c = settings;
  const uint8_t *at = in, *codes = at + kv_block_metadata(c, width);
  size_t n = (size_t)kv_block_count(c, width),
         scales = n * (size_t)kv_block_number(c);
  int size = kv_block_size(c);
  (void)member;
  if (scales) memcpy(scale, at, scales);
  if (c->minimum) memcpy(min, at + scales, 2 * n);
  for (int i = 0; i < width; i++) {
    int first = i - i % size;
    int own = width - first < size ? width - first : size;
    int before = i / size * kv_block_bytes(c, size);
    code[i] = (uint8_t)kv_block_code(c, own, i - first, codes + before);
  }
}

#define OF_BLOCK                                                               \
  "of the block of `size` elements; x* is the first element of "               \
  "the largest magnitude A, and each operation is rounded to binary32"
#define TOP "min(.., 2^bits - 1)"
#define E2M1 "e2m1: sign, then 0 .5 1 1.5 2 3 4 6, larger ones 6"

/* By rule. i is 1 / d, or 0 if d is 0 or i not finite. s is k_scale or v_scale.
 */
static const kv_format_rules rules_of[] = {
    [KV_BLOCK_LARGEST] = {"q8_0: the signed byte of x * i, to the nearest "
                          "integer, halves away from 0",
                          "q8_0: h(d), d = A / 127 " OF_BLOCK, NULL,
                          "q8_0: code * h(d)"},
    [KV_BLOCK_SIGNED] = {"q4_0, q5_0: " TOP " of trunc(x * i + (H + 0.5)), H = "
                         "2^(bits - 1)",
                         "q4_0, q5_0: h(d), d = x* / -H " OF_BLOCK, NULL,
                         "q4_0, q5_0: (code - H) * h(d)"},
    [KV_BLOCK_RANGE] = {"q4_1, q5_1: " TOP " of trunc((x - min) * i + 0.5)",
                        "q4_1, q5_1: h(d), d = (max - min) / (2^bits - "
                        "1) " OF_BLOCK,
                        "q4_1, q5_1: h(min)",
                        "q4_1, q5_1: code * h(d) + h(min)"},
    [KV_BLOCK_REGRESSED] = {"iq4_nl: the index of the number of its list that "
                            "is nearest to x * (1 / (x* / -127)), of two the "
                            "larger",
                            "iq4_nl: h(d), d = sum((w * q) * x) / sum((w * q) "
                            "* q), w = x * x, q the number of x's "
                            "code, " OF_BLOCK,
                            NULL, "iq4_nl: q * h(d)"},
    [KV_BLOCK_FLOOR] = {"mxfp4: " E2M1 ", ties to even, of x / d",
                        "mxfp4: the byte log2(d) + 127, d = 2^(floor(log2 A) - "
                        "2), at least 2^-127, " OF_BLOCK,
                        NULL, "mxfp4: e2m1 * d"},
    [KV_BLOCK_CEIL] = {"fp4_e2m1: " E2M1 ", ties away from 0, of x / d",
                       "fp4_e2m1: the byte log2(d) + 127, d = "
                       "2^ceil(log2(max(A / 6, 1e-10))) " OF_BLOCK,
                       NULL, "fp4_e2m1: e2m1 * d"},
    [KV_BLOCK_SIXTH] = {"nvfp4: " E2M1 ", ties to even, of x * o, o = 1 / (f * "
                        "(1 / g)), 0 if f is 0",
                        "nvfp4: f = e4m3(g * (A * RN(1 / 6))), g = 1 / "
                        "s, " OF_BLOCK,
                        NULL, "nvfp4: (e2m1 * f) * s"},
    [KV_BLOCK_FOUR_SIX] = {"nvfp4_4over6: as nvfp4",
                           "nvfp4_4over6: f as nvfp4, or with 1 / 4 for 1 / 6 "
                           "where the sum of (e0 * e0 + e1 * e1) over pairs is "
                           "smaller, e = e2m1 * (1 / o) - x",
                           NULL, "nvfp4_4over6: (e2m1 * f) * s"},
    [KV_BLOCK_WHOLE] = {"fp8_e4m3, fp8_e5m2: the 8-bit float nearest to x / s, "
                        "ties to even, at most the largest",
                        NULL, NULL, "fp8_e4m3, fp8_e5m2: float * s"}};

static kv_format_rules rules(const void *settings) {
  return rules_of[((const kv_blocked *)settings)->rule];
}

const kv_format kv_format_block = {.name = "block",
                                   .settings_size = sizeof(kv_blocked),
                                   .members = members,
                                   .size = size,
                                   .encode = encode,
                                   .decode = decode,
                                   .shown = shown,
                                   .parts = parts,
                                   .rules = rules};
