/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of duoattention, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_DUOATTENTION_H
#define KV_REF_METHODS_DUOATTENTION_H

#include "ref/ground/arith.h"
#include "ref/lane/method.h"
#include "ref/lane/params.h"

enum { AUTO, OF_FILE }; /* table: whether there is a file */

#define PARAMS(P)                                                              \
  P(REAL, sparsity, "0.5", 0, 1,                                               \
    "share of heads that stream; 0.5 as the authors run Llama-3",              \
    .knob = KV_KNOB_LESS, .grid = 0.0625)                                      \
  P(REAL, threshold, NULL, 0, 1,                                               \
    "a head streams if its gate is below this; default: sparsity decides")     \
  P(INT, sink, "64", 0, 1 << 30, "tokens",                                     \
    "first tokens of a stream; 64 as in the authors' evaluation")              \
  P(INT, recent, "256", 1, 1 << 30, "tokens",                                  \
    "last tokens of a stream; 256 as in the authors' evaluation")              \
  P(INT, window, "32", 1, 1 << 16, "tokens",                                   \
    "with table=auto: last prompt queries that estimate gates; ours")          \
  P(PART, kv_file file,                                                        \
    KV_FILE_PARAM(                                                             \
        "table", params, file, KV_FILE_OPTIONAL, &kind,                        \
        "trained gates: safetensors, gates [layers, KV heads]; default auto: " \
        "estimated from the prompt in each layer, which is ours"))             \
  P(ONLY, int table) /* of the enum above */                                   \
  P(ONLY, float cut) /* of a file: the last of the gates that stream */        \
  P(ONLY,                                                                      \
    int cut_place) /* its place, layer * KV heads + head; -1: none streams */
KV_PARAMS(PARAMS);

/* How many of n gates stream: those before index (n - 1) * sparsity in their
 * order, where numpy.quantile interpolates. */
KV_FN int kv_duo_streams(int n, float sparsity) {
  float place = kv_mul((float)(n - 1), sparsity);
  int whole = (int)place;
  if (sparsity >= 1) return n;
  return whole + ((float)whole < place);
}

/* Does gate a come before gate b? Smaller first; ties: the earlier place. */
KV_FN int kv_duo_before(float a, int place, float b, int other) {
  return a < b || (a == b && place < other);
}

/* A gate for AUTO: the share of attention that went to the middle, both sums in
 * fixed point; 0 if there was none. */
KV_FN float kv_duo_gate(int64_t middle, int64_t all) {
  return all > 0 ? kv_div(kv_unfix(middle), kv_unfix(all)) : 0.0f;
}

#endif
