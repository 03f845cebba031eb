/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of zsmerge, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_ZSMERGE_H
#define KV_REF_METHODS_ZSMERGE_H

#include "ref/lane/params.h"

enum { PAPER, CODE };              /* variant */
enum { DOT, L2 };                  /* metric */
enum { PLAIN, RESIDUAL, CLASSES }; /* of entries, variant=paper */

#define PARAMS(P)                                                              \
  P(INT, budget, NULL, 1, 1 << 30, "entries",                                  \
    "entries left after a compression, at least 4; must be given",             \
    .knob = KV_KNOB_ENTRIES)                                                   \
  P(INT, residual, NULL, 0, 1 << 30, "entries",                                \
    "merged entries; default 1 as in the authors' code")                       \
  P(INT, context, NULL, 0, 1 << 30, "entries",                                 \
    "entries kept by score; default: the rest of the budget")                  \
  P(INT, proximity, NULL, 1, 1 << 30, "entries",                               \
    "newest tokens, always kept; default max(2, budget div 10) as in the "     \
    "authors' code; the script of the paper's Table 2 has 40 %")               \
  P(CHOICE, variant, "paper", "paper|code",                                    \
    "the paper's stream or the authors' code: batch prompt, ring")             \
  P(REAL, decay, "0.98", 0, 1,                                                 \
    "factor of a score; 0.98 as in paper and code; 1 sums as H2O does",        \
    .unit = "per row")                                                         \
  P(REAL, merge_bias, NULL, 0, 1,                                              \
    "added to a merged entry's logit; default 0.6 (paper) or 1 (code)",        \
    .unit = "per ln(weight)")                                                  \
  P(CHOICE, metric, "dot", "dot|l2",                                           \
    "similarity of keys; dot product as in the paper")                         \
  P(PART, int merged, KV_MERGED_PARAM(params, merged))
KV_PARAMS(PARAMS);

#endif
