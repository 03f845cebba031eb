/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of deltakv: its parameters as open resolved them (what
 * each means, its range and its unit stand in the table of
 * ref/methods/deltakv.c), and how far a layer is compressed at a step.
 */
#ifndef KV_REF_METHODS_DELTAKV_H
#define KV_REF_METHODS_DELTAKV_H

#include "ref/parts/filter.h"
#include "ref/parts/residual.h"

enum { TOP, ALL };     /* retrieve */
enum { DEVICE, HOST }; /* where latents lie */

/* A lane's state: how far it is compressed; from byte VALUES on the largest
 * value of each token by its heads; where references are coded but stay as they
 * came, on a device K (before its rotation) and V of each. */
enum { VALUES = 16 };

typedef struct params {
  kv_residual by;
  int top;
  float r;
  char full[KV_TEXT_MAX];
  int recent, retrieve, score, tier;
  kv_layer_list list; /* of `full` */
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
