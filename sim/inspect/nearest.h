/* SPDX-License-Identifier: Apache-2.0
 *
 * Which earlier tokens are nearest to each token: among all of them, and among
 * those that are references where every s-th token is one.
 *
 * The search is binary32, of chains over the elements in their order: by
 * distance, the least RN(fma(-2, a.b, b.b)), as DeltaKV ranks; by cosine, the
 * largest dot product of rows that were divided by their norm. Equal ones: the
 * lower position first. Every kernel set finds the same.
 */
#ifndef KV_SIM_INSPECT_NEAREST_H
#define KV_SIM_INSPECT_NEAREST_H

#include "sim/inspect/rows.h"

enum {
  KV_NEAREST_FROM = 16, /* tokens before it are compared with nothing */
  KV_NEAREST_SINKS = 8, /* first tokens, references of every stride */
  KV_NEAREST_LISTS = 5, /* lists of a token, one for each stride */
  KV_NEAREST_MOST = 8   /* tokens of a list; fewer where fewer are earlier */
};
extern const int kv_nearest_stride[KV_NEAREST_LISTS]; /* 1 (all), 5 10 20 40 */

typedef enum kv_nearness { KV_BY_DISTANCE, KV_BY_COSINE } kv_nearness;

/* The lists, as kv_nearest_of gives them. */
typedef struct kv_nearest {
  int32_t *at; /* [tokens][LISTS][MOST] */
} kv_nearest;

/* Compares the first `width` elements of each row of r. Close *out, also after
 * a failure. KV_INPUT, naming a token, where no distance to an earlier one is
 * finite; KV_RESOURCE: memory. Cost: all tokens against all earlier ones;
 * memory: 160 bytes a token and more, and 16 rows of distances a thread. */
kv_rc kv_nearest_open(const kv_token_rows *r, int width, kv_nearness how,
                      const kv_kernels *kernel, int threads, kv_nearest *out,
                      kv_err *e);
void kv_nearest_close(kv_nearest *n); /* accepts zeroed */

/* List l of token t: MOST earlier tokens, the nearest first; -1: there are
 * fewer. */
static inline const int32_t *kv_nearest_of(const kv_nearest *n, int t, int l) {
  return n->at + ((size_t)t * KV_NEAREST_LISTS + (size_t)l) * KV_NEAREST_MOST;
}

/* True if token j is a reference of stride number l. */
static inline int kv_nearest_is_reference(int j, int l) {
  return j < KV_NEAREST_SINKS || j % kv_nearest_stride[l] == 0;
}

#endif
