/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of deltakv as its open (ref/methods/deltakv.c) has resolved
 * them, for it and its CUDA twin, how far a layer is compressed at a step, and
 * who competes there. Defaults and sources stand in its table of parameters; an
 * enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_DELTAKV_H
#define KV_REF_METHODS_DELTAKV_H

#include "ref/parts/filter.h"
#include "ref/parts/residual.h"

enum { TOP, ALL };     /* retrieve */
enum { DEVICE, HOST }; /* where latents lie */
enum { LAYER, GROUP }; /* temporary */

/* A lane's state: an int32 of how far it is compressed; from byte VALUES on the
 * largest value of each candidate by its heads, [n_tokens] floats; with
 * self=yes the CUDA twin's K (before its rotation) and V of each reference; of
 * a prompt in chunks the sums of a chunk, from byte sums_at on. */
enum { VALUES = 16 };

typedef struct params {
  kv_residual by; /* references and coding */
  int top; /* candidates attended by layers that follow; 0: the share r */
  int prompt_top; /* of them by rows of a later chunk; 0: as many */
  float r;        /* share 0 .. 1 of a step's candidates; 0: top says it */
  char full[KV_TEXT_MAX]; /* layers that keep everything, such as 0/1/2/8/18 */
  int recent;             /* R: the newest R to 2 R - 1 tokens are not coded */
  int retrieve, score, tier; /* enum; kv_vote; enum */
  int temporary;             /* enum: how long rows made for a step stay */
  kv_layer_list list;        /* of `full` */
} params;

/* Tokens sink .. end - 1 are compressed when `seen` tokens were: all but the
 * last R to 2 R - 1, in whole multiples of R. */
KV_FN int compressed_end(const params *o, int seen) {
  int sink = o->by.sink, whole = seen > sink ? (seen - sink) / o->recent : 0;
  return sink + (whole > 1 ? whole - 1 : 0) * o->recent;
}

/* Tokens sink .. sink + n - 1 compete then, n: those that were compressed when
 * the step, or the chunk, began. */
KV_FN int contenders(const params *o, const kv_shape *s, int step) {
  bool chunk = step <= s->prompt_len;
  return compressed_end(o, chunk ? kv_chunk_first(s, step) : step - 1) -
         o->by.sink;
}

/* Candidates that win, of n; of a chunk or of a step. */
KV_FN int winners(const params *o, int n, bool chunk) {
  int k = o->r > 0 ? (int)kv_mul(o->r, (float)n) : o->top;
  if (chunk && o->prompt_top > 0) k = o->prompt_top;
  return k < 1 ? 1 : k;
}

/* Bytes of a lane's state before the sums of a chunk. */
KV_FN size_t sums_at(const kv_shape *s, const params *o) {
  size_t row = (size_t)(s->d + s->d_v), n = (size_t)s->n_tokens;
  if (o->by.self) n += (size_t)o->by.most * row;
  return (VALUES + n * sizeof(float) + 7) / 8 * 8;
}

#endif
