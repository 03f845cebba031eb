/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of rkv, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_RKV_H
#define KV_REF_METHODS_RKV_H

#include "ref/lane/method.h"
#include "ref/lane/params.h"

enum { CODE, PAPER };          /* redundancy */
enum { INDEX0, NONE };         /* fallback */
enum { BY_SCORE, BY_PLACE };   /* slots */
enum { MAX_LOGIT, MEAN_PROB }; /* group */
enum { FROM_PROMPT, GLOBAL };  /* trigger */

#define PARAMS(P)                                                              \
  P(BUDGET, "tokens left after a compression, window included; must be given") \
  P(INT, window, NULL, 1, 1 << 22, "tokens",                                   \
    "last queries that vote; their tokens stay; default min(8, max(1, budget " \
    "div 2)), 8 as in the authors' code")                                      \
  P(INT, kernel, "7", 1, 1023, "tokens",                                       \
    "width of the max pooling, odd; 7 as in the authors' code")                \
  P(REAL, lambda, "0.1", 0, 1,                                                 \
    "share of importance in the score; 0.1 as in the paper, 0.07 in the "      \
    "authors' code")                                                           \
  P(REAL, threshold, "0.5", 0, 1,                                              \
    "cosine above which keys are alike; 0.5 as in the authors' code")          \
  P(INT, every, "128", 1, 1 << 30, "steps",                                    \
    "decode steps between compressions; 128 as in paper and code")             \
  P(CHOICE, redundancy, "code", "code|paper",                                  \
    "which of two similar keys is spared: the later one, as in the authors' "  \
    "code, or the one in the paper's formula")                                 \
  P(CHOICE, fallback, "index0", "index0|none",                                 \
    "a key that no other resembles spares the first entry, as in the "         \
    "authors' code, or none; redundancy=paper spares none")                    \
  P(CHOICE, slots, "score", "score|position",                                  \
    "order of kept entries, which affects the next compression: by score as "  \
    "in the authors' code, or by time")                                        \
  P(CHOICE, group, "max_logit", "max_logit|mean_prob",                         \
    "how the query heads of a KV head are combined: the largest logit, as in " \
    "the authors' code, or the mean of probabilities")                         \
  P(CHOICE, trigger, "prompt", "prompt|global",                                \
    "compress when every * m tokens were generated, or when every * m + 1 "    \
    "were seen, as in the authors' code")
KV_PARAMS(PARAMS);

#endif
