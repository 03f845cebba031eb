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

enum { AFTER, BEFORE };            /* rope */
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
  P(TEXT, raw_layers,                                                          \
    "layers that stay uncoded, such as first2/last2 or 0/4-7; default: none",  \
    .later = true)                                                             \
  P(FILE, formats, KV_FILE_OPTIONAL, &kv_by_layer_kind,                        \
    "formats by layer: a text file, a line \"LAYERS KEYS VALUES\" each, such " \
    "as 0-3 raw int8; other layers have k and v; default: no file",            \
    .later = true)                                                             \
  /* By open: which of its codings, or AS_IT_CAME, by kv_by_layer_at; settings \
     of each, of the format token or of block. */                              \
  P(ONLY, int8_t coding[SIDES][KV_BY_LAYER + 1])                               \
  P(ONLY, kv_minmax how[KV_MAX_CODINGS])                                       \
  P(ONLY, kv_blocked block[KV_MAX_CODINGS])
KV_PARAMS(PARAMS);

#endif
