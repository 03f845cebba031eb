/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of palu, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_PALU_H
#define KV_REF_METHODS_PALU_H

#include "ref/lane/params.h"
#include "ref/parts/lowrank.h"

#define PARAMS(P)                                                              \
  P(PART, kv_lowrank by,                                                       \
    KV_SHARE_PARAM("share", params, by.share, "0.5", 0.0078125, 1,             \
                   "latent numbers as a share of a vector's; 0.5 as in the "   \
                   "paper's main tables",                                      \
                   .unit = "share", .knob = KV_KNOB_MORE, .grid = 0.0625))     \
  P(ROW,                                                                       \
    KV_INT_PARAM("unit", params, by.unit, "32", 1, 4096, "numbers",            \
                 "ranks are multiples of this; 32 as in the authors' code"))   \
  P(ROW, KV_CHOICE_PARAM(                                                      \
             "allocation", params, by.allocation, "uniform", "uniform|energy", \
             "equal ranks, or by energy; both take the same bytes"))           \
  P(ROW, KV_CHOICE_PARAM(                                                      \
             "latent", params, by.latent, "fp16", "fp16|bf16|fp32|int4",       \
             "how a latent number is stored; 16 bits as in the paper"))        \
  P(ROW, KV_INT_PARAM("group", params, by.group, "32", 1, 4096, "numbers",     \
                      "with latent=int4: how many share scale and minimum"))   \
  P(ROW, KV_FILE_PARAM(                                                        \
             "bases", params, by.file, KV_FILE_BESIDE, &kv_lowrank_kind,       \
             "directions: safetensors, as `kvreplay train palu` writes them"))
KV_PARAMS(PARAMS);

#endif
