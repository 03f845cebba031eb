/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by both twins of duoattention: its parameters as open resolved them
 * (what each means, its range and its unit stand in the table of
 * ref/methods/duoattention.c).
 */
#ifndef KV_REF_METHODS_DUOATTENTION_H
#define KV_REF_METHODS_DUOATTENTION_H

#include "ref/ground/arith.h"
#include "ref/lane/method.h"

enum { AUTO, OF_FILE }; /* table: whether there is a file */

typedef struct params {
  kv_file file;
  int table, sink, recent, window;
  float sparsity, threshold; /* threshold NaN: not given */
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

/* The order of gates: the smaller first, of equal ones the earlier place. */
KV_FN int kv_duo_before(float a, int place, float b, int other) {
  return a < b || (a == b && place < other);
}

/* What attention in the middle was, of all: a gate. */
KV_FN float kv_duo_gate(int64_t middle, int64_t all) {
  return all > 0 ? kv_div(kv_unfix(middle), kv_unfix(all)) : 0.0f;
}

#endif
