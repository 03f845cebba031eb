/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of hardkv: its parameters as open resolved them (what each
 * means, its range and its unit stand in the table of ref/methods/hardkv.c),
 * and where things lie in a lane's own state.
 */
#ifndef KV_REF_METHODS_HARDKV_H
#define KV_REF_METHODS_HARDKV_H

#include "ref/lane/method.h"
#include "ref/parts/cascade.h"
#include "ref/parts/scorers.h"

enum { PAPER, CODE };  /* variant */
enum { EVICT, MERGE }; /* condensed */

typedef struct params {
  int upper, lower, every, sinks, local;
  int variant, condensed;
  int merged; /* a kv_means */
  kv_voters v;
  kv_score_options s; /* of adapter=score */
} params;

/* The lane's state: what the scorer keeps; queries of the last `window` tokens
 * (ref/parts/ring.h); their temperatures, [window], 0 where none was looked
 * for. */
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
KV_FN kv_cascade kv_hard_cascade(const params *o) {
  kv_cascade c = {o->upper, o->sinks, kv_hard_last(o), o->condensed == MERGE,
                  o->variant == CODE};
  return c;
}

KV_FN bool kv_hard_scores(const params *o) {
  return o->v.adapter == KV_ADAPT_SCORE;
}

/* Of so many rows that are shown, the first ones that the scorer is not: sums
 * over rows are of all of them. */
KV_FN int kv_hard_skip(const params *o, int rows) {
  return rows > o->s.rows ? rows - o->s.rows : 0;
}

/* Does layer 0's message hold temperatures at this step? */
KV_FN bool kv_hard_compresses(const params *o, const kv_shape *s, int step) {
  return step >= s->prompt_len && (step - s->prompt_len) % o->every == 0;
}

#endif
