/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of kivi, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_KIVI_H
#define KV_REF_METHODS_KIVI_H

#include "ref/formats/minmax.h"
#include "ref/lane/lane.h"
#include "ref/lane/params.h"

enum { AUTO, PAPER, CODE }; /* variant */
enum { AFTER, BEFORE };     /* rope */
enum { KEYS, VALUES };      /* codings */

#define PARAMS(P)                                                              \
  P(INT, bits, "2", 2, 4, "bits",                                              \
    "bits of a code, 2 or 4; 2 as in the paper's tables",                      \
    .knob = KV_KNOB_MORE, .grid = 2)                                           \
  P(INT, k_bits, NULL, 2, 4, "bits",                                           \
    "bits of a key's code, 2 or 4; default: bits")                             \
  P(INT, v_bits, NULL, 2, 4, "bits",                                           \
    "bits of a value's code, 2 or 4; default: bits")                           \
  P(INT, group, "32", 1, 4096, "tokens (keys), elements (values)",             \
    "how many share scale and minimum; 32 as in the authors' long-context "    \
    "tables")                                                                  \
  P(INT, residual, NULL, 1, 1 << 20, "tokens",                                 \
    "newest tokens that stay uncoded, a multiple of group; default: the "      \
    "largest multiple up to 128 (authors' tables), at least group")            \
  P(CHOICE, variant, "auto", "auto|paper|code",                                \
    "how codes are chosen: the formula in fp32 or the authors' fp16; auto: "   \
    "code on fp16 traces, else paper")                                         \
  P(CHOICE, rope, "after", "after|before",                                     \
    "code keys after RoPE (paper, authors' code) or before it, where "         \
    "channels keep their ranges")                                              \
  P(ONLY, kv_minmax k) /* settings of the keys' coding, by open */             \
  P(ONLY, kv_minmax v) /* settings of the values' coding, by open */
KV_PARAMS(PARAMS);

#endif
