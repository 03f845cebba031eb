/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of quant, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_QUANT_H
#define KV_REF_METHODS_QUANT_H

#include "ref/formats/named.h"
#include "ref/lane/lane.h"
#include "ref/lane/params.h"

enum { AFTER, BEFORE };            /* rope */
enum { KEEP, SUBTRACT, MEAN };     /* key_bias */
enum { NONE, HADAMARD, ONLY_KEYS, ONLY_VALUES }; /* rotate */
enum { KEYS, VALUES, SIDES };      /* of an entry */
enum { AS_IT_CAME = -1, RAW = 0 }; /* coding of a side, and its name */

#define PARAMS(P)                                                              \
  P(PART, int named[SIDES],                                                    \
    KV_CHOICE_PARAM("k", params, named[KEYS], "int8", KV_NAMED_CHOICES,        \
                    "format of keys; int8 as in LeanKV's K8V4; raw: uncoded")) \
  P(ROW, KV_CHOICE_PARAM(                                                      \
             "v", params, named[VALUES], "int4", KV_NAMED_CHOICES,             \
             "format of values; int4 as in LeanKV's K8V4; raw: uncoded"))      \
  P(INT, groups, "1", 1, 4096, "groups",                                       \
    "groups per row, each with its own metadata; 1 as in LeanKV's main "       \
    "tables")                                                                  \
  P(PART, int side_groups[SIDES],                                              \
    KV_INT_PARAM("k_groups", params, side_groups[KEYS], NULL, 1, 4096,         \
                 "groups", "groups per key; default: groups"))                 \
  P(ROW, KV_INT_PARAM("v_groups", params, side_groups[VALUES], NULL, 1, 4096,  \
                      "groups", "groups per value; default: groups"))          \
  P(INT, residual, "0", 0, 1 << 20, "tokens",                                  \
    "newest entries that stay uncoded; 0 as in LeanKV's tables of one "        \
    "precision")                                                               \
  P(PART, float scale[SIDES],                                                  \
    KV_REAL_PARAM("k_scale", params, scale[KEYS], "1", 1e-30, 1e30,            \
                  "scale of all keys, for fp8_e4m3, fp8_e5m2 and nvfp4; 1 as " \
                  "in vLLM without calibration",                               \
                  .later = true))                                              \
  P(ROW, KV_REAL_PARAM("v_scale", params, scale[VALUES], "1", 1e-30, 1e30,     \
                       "scale of all values, likewise", .later = true))        \
  P(CHOICE, rope, "after", "after|before",                                     \
    "code keys after RoPE (LeanKV, QServe) or before it (Atom)")               \
  P(PART, int rotate,                                                          \
    KV_CHOICE_PARAM("rotate", params, rotate, "none",                          \
                    "none|hadamard|keys|values",                               \
                    "multiply rows by a Hadamard matrix before coding: both "  \
                    "sides, or only one",                                      \
                    .later = true))                                            \
  P(PART, int key_bias,                                                        \
    KV_CHOICE_PARAM("key_bias", params, key_bias, "keep",                      \
                    "keep|subtract|mean",                                      \
                    "subtract before coding keys: the model's key bias, "      \
                    "which the trace must hold, or the prompt's mean key",     \
                    .later = true))                                            \
  P(ONLY,                                                                      \
    int coding[SIDES]) /* by open: which of its codings, or AS_IT_CAME */      \
  /* settings of both, by open: of the format token, or of block */            \
  P(ONLY, kv_minmax how[SIDES])                                                \
  P(ONLY, kv_blocked block[SIDES])
KV_PARAMS(PARAMS);

/* A lane's state with key_bias: an int32_t, 1 once u is known, and at this byte
 * u, float[d] (ref/FORMATS.md, Prepared rows). */
enum { SHIFT_AT = 16 };

/* key_bias=mean: an element of a key before RoPE in fixed point; the mean of n
 * of these. */
KV_FN int64_t kv_quant_fix(float x) {
  x = x > -65536 ? x : -65536;
  x = x < 65536 ? x : 65536;
  return kv_fix(kv_mul(x, 0x1p-16f));
}
KV_FN float kv_quant_mean(int64_t sum, int n) {
  return kv_div(kv_mul(kv_from_int64(sum), 0x1p-24f), (float)n);
}

#endif
