/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of quant, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_QUANT_H
#define KV_REF_METHODS_QUANT_H

#include "ref/formats/named.h"
#include "ref/lane/lane.h"
#include "ref/lane/params.h"
#include "ref/parts/by_layer.h"

enum { AFTER, BEFORE };                          /* rope */
enum { KEEP, SUBTRACT, MEAN };                   /* key_bias */
enum { GIVEN, HEAD, TENSOR };                    /* scale */
enum { NONE, HADAMARD, ONLY_KEYS, ONLY_VALUES }; /* rotate */
enum { KEYS, VALUES, SIDES };                    /* of an entry */
enum { AS_IT_CAME = -1, RAW = 0 }; /* coding of a side, and its name */
enum { EMPTY, ARRIVED, SCALED };   /* kv_quant_own.known */

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
  P(PART, int scaling,                                                         \
    KV_CHOICE_PARAM("scale", params, scaling, "given", "given|head|tensor",    \
                    "where the scale of these formats is from: k_scale and "   \
                    "v_scale, or the prompt's largest magnitude, of a KV "     \
                    "head or of all KV heads of the layer",                    \
                    .later = true))                                            \
  P(CHOICE, rope, "after", "after|before",                                     \
    "code keys after RoPE (LeanKV, QServe) or before it (Atom)")               \
  P(TEXT, raw_layers,                                                          \
    "layers that stay uncoded, such as first2/last2 or 0/4-7; default: none",  \
    .later = true)                                                             \
  P(FILE, formats, KV_FILE_OPTIONAL, &kv_by_layer_kind,                        \
    "formats by layer: a text file, a line \"LAYERS KEYS VALUES\" each, such " \
    "as 0-3 raw int8; other layers have k and v; default: no file",            \
    .later = true)                                                             \
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
  /* By open: which of its codings, or AS_IT_CAME, by kv_by_layer_at; settings \
     of each, of the format token or of block. */                              \
  P(ONLY, int8_t coding[SIDES][KV_BY_LAYER + 1])                               \
  P(ONLY, kv_minmax how[KV_MAX_CODINGS])                                       \
  P(ONLY, kv_blocked block[KV_MAX_CODINGS])                                    \
  P(ONLY, bool calibrated[KV_MAX_CODINGS]) /* its scale is from the prompt */  \
  P(ONLY, uint32_t held[2][KV_BY_LAYER + 1]) /* bytes of a lane, of a layer */
KV_PARAMS(PARAMS);

/* A lane's state with key_bias, or with a scale from the prompt. Behind it,
 * with key_bias, is u, float[d] (ref/FORMATS.md, Prepared rows). */
typedef struct kv_quant_own {
  int32_t known;           /* ARRIVED: u and most; SCALED, only with
                              scale=tensor: also the layer's scale */
  uint32_t most[SIDES];    /* bits of the lane's largest magnitudes */
  kv_blocked block[SIDES]; /* the lane's settings of calibrated sides */
} kv_quant_own;

/* The scale for a largest magnitude with these bits. */
KV_FN float kv_quant_scale(const kv_blocked *c, uint32_t most) {
  float top = c->element == KV_ELEMENT_E5M2 ? 57344.0f : 448.0f;
  if (c->rule == KV_BLOCK_SIXTH) top = 2688;
  if (c->rule == KV_BLOCK_FOUR_SIX) top = 1536;
  return most ? kv_max(kv_div(kv_float(most), top), 0x1p-100f) : 1;
}

/* key_bias=mean: an element of a key before RoPE in fixed point; the mean of n
 * of these. */
KV_FN int64_t kv_quant_fix(float x) {
  x = kv_min(kv_max(x, -65536.0f), 65536.0f);
  return kv_fix(kv_mul(x, 0x1p-16f));
}
KV_FN float kv_quant_mean(int64_t sum, int n) {
  return kv_div(kv_mul(kv_from_int64(sum), 0x1p-24f), (float)n);
}

#endif
