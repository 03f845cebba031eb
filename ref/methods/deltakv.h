/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of deltakv as its open (ref/methods/deltakv.c) has resolved
 * them, for it and its CUDA twin, and how far a layer is compressed at a step.
 * Defaults and sources stand in its table of parameters; an enum has the values
 * of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_DELTAKV_H
#define KV_REF_METHODS_DELTAKV_H

#include "ref/parts/filter.h"
#include "ref/parts/residual.h"

enum { TOP, ALL };     /* retrieve */
enum { DEVICE, HOST }; /* where latents lie */

/* A lane's state: an int32 of how far it is compressed; from byte VALUES on the
 * largest value of each candidate by its heads, [n_tokens] floats; with
 * self=yes the CUDA twin's K (before its rotation) and V of each reference. */
enum { VALUES = 16 };

typedef struct params {
  kv_residual by; /* references and coding */
  int top; /* candidates attended by layers that follow; 0: the share r */
  float r; /* share 0 .. 1 of a step's candidates; 0: top says it */
  char full[KV_TEXT_MAX]; /* layers that keep everything, such as 0/1/2/8/18 */
  int recent;             /* R: the newest R to 2 R - 1 tokens are not coded */
  int retrieve, score, tier; /* enum; kv_vote; enum */
  kv_layer_list list;        /* of `full` */
} params;

/* Tokens sink .. end - 1 are compressed when `seen` tokens were: all but the
 * last R to 2 R - 1, in whole multiples of R. */
KV_FN int compressed_end(const params *o, int seen) {
  int sink = o->by.sink, whole = seen > sink ? (seen - sink) / o->recent : 0;
  return sink + (whole > 1 ? whole - 1 : 0) * o->recent;
}

/* Candidates that win, of n. */
KV_FN int winners(const params *o, int n) {
  int k = o->r > 0 ? (int)kv_mul(o->r, (float)n) : o->top;
  return k < 1 ? 1 : k;
}

#endif
