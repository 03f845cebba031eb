/* SPDX-License-Identifier: Apache-2.0
 *
 * What both twins of hardkv read: its parameters, resolved, and where things
 * lie in a lane's own state.
 */
#ifndef KV_REF_METHODS_HARDKV_H
#define KV_REF_METHODS_HARDKV_H

#include "ref/lane/method.h"
#include "ref/parts/votes.h"

typedef struct params {
  int upper, lower, every, sinks, local;
  kv_voters v;
} params;

/* The lane's state: queries of the last `window` tokens, [window][heads][d];
 * their temperatures, [window], 0 where none was looked for; and the mask, bit
 * i mod 8 of byte i div 8 for token i, set while attention reads it. */
KV_FN size_t kv_hard_ring(const kv_shape *s, const params *o) {
  return (size_t)o->v.window * (size_t)(s->n_heads / s->n_kv_heads) *
         (size_t)s->d * sizeof(float);
}
KV_FN size_t kv_hard_temperatures(const params *o) {
  return (size_t)o->v.window * sizeof(float);
}
KV_FN size_t kv_hard_mask(const kv_shape *s) {
  return ((size_t)s->n_tokens + 7) / 8;
}

/* Does a token stay, whatever the votes are? */
KV_FN bool kv_hard_forced(const params *o, int step, int token) {
  int last = o->v.window;
  if (o->local > last) last = o->local;
  return token < o->sinks || token >= step - last;
}

#endif
