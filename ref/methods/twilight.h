/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of twilight, shared with its CUDA twin (ref/lane/params.h),
 * and the code of a key's copy.
 */
#ifndef KV_REF_METHODS_TWILIGHT_H
#define KV_REF_METHODS_TWILIGHT_H

#include "ref/ground/arith.h"
#include "ref/lane/params.h"

enum { RANGE = 4 }; /* bytes of a copy's scale and minimum, before its codes */

#define PARAMS(P)                                                              \
  P(SHARE, p, "0.85", 0, 1,                                                    \
    "estimated mass of the attended candidates among all candidates, rounded " \
    "to a multiple of 2^-20; 0.85 as in the authors' configurations",          \
    .unit = "share of the probability", .knob = KV_KNOB_MORE, .grid = 0.001)   \
  P(INT, skip, "2", 0, 1 << 20, "layers",                                      \
    "first layers that attend every candidate; 2 as in the authors' "          \
    "configurations")                                                          \
  P(PART, int coarse,                                                          \
    KV_CHOICE_PARAM(                                                           \
        "bits", params, coarse, "4", "4|2",                                    \
        "bits of a code in the copy of the keys; 4 as in the paper"))
KV_PARAMS(PARAMS);

KV_FN int bits_of(const params *o) { return o->coarse ? 2 : 4; }

/* Bytes of a copy's codes: element x is in byte x mod that many, the first of
 * them in the lowest bits, as in ref/formats/minmax.h. */
KV_FN int code_bytes(const params *o, int d) {
  return (d * bits_of(o) + 7) / 8;
}

/* Bytes from one copy to the next: even, because a scale takes two bytes. */
KV_FN int copy_stride(const params *o, int d) {
  return (RANGE + code_bytes(o, d) + 1) / 2 * 2;
}

/* The nearest fp16 that is finite. */
KV_FN float kept_half(float x) {
  return kv_round_f16(kv_min(kv_max(x, -65504.0f), 65504.0f));
}

/* The scale of a key from its smallest and largest element, as stored. */
KV_FN float scale_of(const params *o, float least, float most) {
  float levels = (float)((1 << bits_of(o)) - 1);
  return kept_half(kv_div(kv_sub(most, least), levels));
}

/* The code of x, by scale and minimum as they are stored. */
KV_FN uint32_t code_of(const params *o, float x, float scale, float min) {
  float top = (float)((1 << bits_of(o)) - 1), y;
  if (scale == 0) return 0;
  y = kv_rint(kv_div(kv_sub(x, min), scale));
  y = y > 0 ? y : 0;
  return (uint32_t)(int)(y < top ? y : top);
}

#endif
