/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of duoattention as its open (ref/methods/duoattention.c) has
 * resolved them, for it and its CUDA twin. Defaults and sources stand in its
 * table of parameters; an enum has the values of the parameter named beside it.
 */
#ifndef KV_REF_METHODS_DUOATTENTION_H
#define KV_REF_METHODS_DUOATTENTION_H

#include "ref/ground/arith.h"
#include "ref/lane/method.h"

enum { AUTO, OF_FILE }; /* table: whether there is a file */

typedef struct params {
  kv_file file;     /* trained gates, [layers][KV heads] */
  int table;        /* of the enum above */
  int sink, recent; /* first and last tokens that a streaming head keeps */
  int window;       /* of AUTO: last prompt queries that are asked */
  float sparsity;   /* share 0 .. 1 of heads that stream */
  float threshold;  /* heads with a smaller gate stream; NaN: not given */
  /* Of a file: the last of the gates that stream, and its place, layer *
   * KV heads + head; place -1: none streams. */
  float cut;
  int cut_place;
} params;

/* How many of n gates stream: those before the place (n - 1) * sparsity in
 * their order, which numpy.quantile interpolates at. */
KV_FN int kv_duo_streams(int n, float sparsity) {
  float place = kv_mul((float)(n - 1), sparsity);
  int whole = (int)place;
  if (sparsity >= 1) return n;
  return whole + ((float)whole < place);
}

/* Does gate a at its place come before gate b at the other one? The smaller
 * first, of equal ones the earlier place. */
KV_FN int kv_duo_before(float a, int place, float b, int other) {
  return a < b || (a == b && place < other);
}

/* A gate, of AUTO: the share of attention that went to the middle, both sums in
 * fixed point; 0 where there was none. */
KV_FN float kv_duo_gate(int64_t middle, int64_t all) {
  return all > 0 ? kv_div(kv_unfix(middle), kv_unfix(all)) : 0.0f;
}

#endif
