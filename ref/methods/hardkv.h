/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of hardkv, shared with its CUDA twin (ref/lane/params.h), and
 * the layout of a lane's state.
 */
#ifndef KV_REF_METHODS_HARDKV_H
#define KV_REF_METHODS_HARDKV_H

#include "ref/lane/method.h"
#include "ref/lane/params.h"
#include "ref/parts/cascade.h"
#include "ref/parts/scorers.h"

enum { PAPER, CODE };  /* variant */
enum { EVICT, MERGE }; /* condensed */

#define PARAMS(P)                                                              \
  P(INT, upper, NULL, 1, 1 << 30, "tokens",                                    \
    "a lane with more tokens is rewritten to at most this many; must be "      \
    "given; 2048 in the authors' code",                                        \
    .knob = KV_KNOB_ENTRIES)                                                   \
  P(INT, lower, NULL, 0, 1 << 30, "tokens",                                    \
    "a lane with no more tokens is left alone; default upper div 2, as in "    \
    "the paper")                                                               \
  /* p: 1e-6 is the smallest share that is not stored as 0. */                 \
  P(PART, kv_voters v,                                                         \
    KV_SHARE_PARAM(                                                            \
        "p", params, v.p, "0.9", 1e-6, 1,                                      \
        "mass of the tokens that a query votes for, rounded to a multiple of " \
        "2^-20; 0.9 as in the paper, which sweeps 0.8, 0.7 and 0.6",           \
        .unit = "share of the probability"))                                   \
  P(INT, every, "128", 1, 1 << 30, "steps",                                    \
    "decode steps between compressions; 128 as in paper and code")             \
  P(ROW,                                                                       \
    KV_INT_PARAM("window", params, v.window, NULL, 1, 1 << 22, "tokens",       \
                 "tokens of the dense tier, whose queries vote; default "      \
                 "min(128, max(1, upper div 2)), 128 as in paper and code"))   \
  P(INT, sinks, "1", 0, 1 << 22, "tokens",                                     \
    "first tokens, always kept; 1 as in the authors' code")                    \
  P(INT, local, NULL, 0, 1 << 22, "tokens",                                    \
    "last tokens, always kept besides the dense tier; default min(32, "        \
    "window), 127 for variant=code:adapter=rkv, as in the authors' code")      \
  P(ROW, KV_CHOICE_PARAM("adapter", params, v.adapter, "snapkv",               \
                         "vanilla|snapkv|rkv|score",                           \
                         "how logits become scores: the logits, their "        \
                         "largest among neighbours, R-KV's share less "        \
                         "redundancy, or the scorer that score= names"))       \
  P(PART, kv_score_options s,                                                  \
    KV_SCORE_PARAMS(params, s, "snapkv", .later = false))                      \
  P(ROW, KV_INT_PARAM("kernel", params, v.kernel, "7", 1, 1023, "tokens",      \
                      "width of the pooling of adapter=snapkv, odd; 7 as in "  \
                      "the authors' code"))                                    \
  P(ROW, KV_RKV_PARAMS(params, v))                                             \
  P(ROW, KV_CHOICE_PARAM(                                                      \
             "calibrate", params, v.calibrate, NULL, "none|bisect|gradient",   \
             "how temperatures are computed: bisect to 1e-6, gradient, which " \
             "is faster, to 0.01; default bisect, for variant=code gradient, " \
             "which its managers call"))                                       \
  P(ROW, KV_CHOICE_PARAM(                                                      \
             "temperatures", params, v.temperatures, "first", "first|every",   \
             "computed once for each index in the window and reused, as the "  \
             "paper does in practice, or computed every time"))                \
  P(CHOICE, condensed, "evict", "evict|merge",                                 \
    "when a lane is rewritten, tokens that go are dropped, or merged into "    \
    "tokens that stay, the largest with the smallest")                         \
  P(CHOICE, variant, "paper", "paper|code",                                    \
    "the paper's definitions, or the authors' code where it differs")          \
  P(PART, int merged, KV_MERGED_PARAM(params, merged))
KV_PARAMS(PARAMS);

/* The lane's state: the scorer's; queries of the last `window` tokens
 * (ref/parts/ring.h); their temperatures, floats [window], 0 if not computed.
 * The functions give bytes before the ring, before the temperatures, and in
 * all. */
KV_FN size_t kv_hard_ring(const params *o) {
  return (o->s.state + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
}
KV_FN size_t kv_hard_temperatures(const kv_shape *s, const params *o) {
  return kv_hard_ring(o) + kv_ring_floats(s, o->v.window) * sizeof(float);
}
KV_FN size_t kv_hard_state(const kv_shape *s, const params *o) {
  return kv_hard_temperatures(s, o) + (size_t)o->v.window * sizeof(float);
}

/* How many last tokens stay whatever their votes. In the paper the dense tier
 * is exact, in the code it is only a local window. */
KV_FN int kv_hard_last(const params *o) {
  if (o->variant == CODE || o->local > o->v.window) return o->local;
  return o->v.window;
}
/* The parameters as a cascade's. */
KV_FN kv_cascade kv_hard_cascade(const params *o) {
  kv_cascade c = {o->upper, o->sinks, kv_hard_last(o), o->condensed == MERGE,
                  o->variant == CODE};
  return c;
}

/* Is there a scorer? */
KV_FN bool kv_hard_scores(const params *o) {
  return o->v.adapter == KV_ADAPT_SCORE;
}

/* How many of the first observed rows the scorer does not get: it needs only
 * its own last rows. */
KV_FN int kv_hard_skip(const params *o, int rows) {
  return rows > o->s.rows ? rows - o->s.rows : 0;
}

/* Is a compression due at `step` tokens seen? Then, with variant=code, the
 * first layer's message holds temperatures. */
KV_FN bool kv_hard_compresses(const params *o, const kv_shape *s, int step) {
  return step >= s->prompt_len && (step - s->prompt_len) % o->every == 0;
}

#endif
