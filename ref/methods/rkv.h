/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of rkv, for it and its CUDA twin; its open resolves what has
 * no default. An enum has the values of the parameter named beside it.
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
    "last queries that vote, their tokens stay; default min(8, max(1, budget " \
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
    "which of two like keys is spared: the later one, as the authors' code "   \
    "does, or the paper's formula to the letter")                              \
  P(CHOICE, fallback, "index0", "index0|none",                                 \
    "a key like no other spares the first one, as in the authors' code, or "   \
    "nobody; redundancy=paper spares nobody")                                  \
  P(CHOICE, slots, "score", "score|position",                                  \
    "the order of what is kept, which the next compression goes by: by score " \
    "as in the authors' code, or in time")                                     \
  P(CHOICE, group, "max_logit", "max_logit|mean_prob",                         \
    "how the query heads of a KV head vote: the largest logit, as in the "     \
    "authors' code, or the mean of probabilities")                             \
  P(CHOICE, trigger, "prompt", "prompt|global",                                \
    "compress when every * m tokens were generated, or when every * m + 1 "    \
    "were seen, as the authors' counter does")
KV_PARAMS(PARAMS);

#endif
