/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of hardkv as its open (ref/methods/hardkv.c) has resolved
 * them, for it and its CUDA twin, and where things lie in a lane's own state.
 * Defaults and sources stand in its table of parameters; an enum has the values
 * of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_HARDKV_H
#define KV_REF_METHODS_HARDKV_H

#include "ref/lane/method.h"
#include "ref/parts/cascade.h"
#include "ref/parts/scorers.h"

enum { PAPER, CODE };  /* variant */
enum { EVICT, MERGE }; /* condensed */

typedef struct params {
  int upper, lower; /* entries above which a lane is rewritten, and that stay at
                       most; entries up to which nothing is chosen */
  int every;        /* decode steps between compressions */
  int sinks, local; /* first and last tokens that always stay */
  int variant, condensed; /* of the enums above */
  int merged;             /* a kv_means */
  kv_voters v;
  kv_score_options s; /* of adapter=score */
} params;

/* The lane's state: what the scorer keeps; queries of the last `window` tokens
 * (ref/parts/ring.h); their temperatures, floats [window], 0 where none was
 * looked for. Bytes before the ring, before the temperatures, and of it all. */
KV_FN size_t kv_hard_ring(const params *o) {
  return (o->s.state + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
}
KV_FN size_t kv_hard_temperatures(const kv_shape *s, const params *o) {
  return kv_hard_ring(o) + kv_ring_floats(s, o->v.window) * sizeof(float);
}
KV_FN size_t kv_hard_state(const kv_shape *s, const params *o) {
  return kv_hard_temperatures(s, o) + (size_t)o->v.window * sizeof(float);
}

/* The last tokens that stay, whatever the votes are: the dense tier is exact in
 * the paper and no more than a local window in the code. */
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

/* Of so many rows that observe is shown, how many of the first the scorer is
 * not: it wants its own last ones alone. */
KV_FN int kv_hard_skip(const params *o, int rows) {
  return rows > o->s.rows ? rows - o->s.rows : 0;
}

/* Is a compression due at `step` tokens seen? Then, with variant=code, the
 * first layer's message holds temperatures. */
KV_FN bool kv_hard_compresses(const params *o, const kv_shape *s, int step) {
  return step >= s->prompt_len && (step - s->prompt_len) % o->every == 0;
}

#endif
