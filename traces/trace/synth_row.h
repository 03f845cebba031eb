/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a synthetic trace from its coordinates alone: seed, layer,
 * head, token. No state but tables, so rows can be made in any order, by any
 * thread. The structures:
 *
 *   channels   the first quarter of the RoPE pairs ("fast") carries one
 *              constant vector, rotated by the position: keys near the query
 *              score high; the last half ("slow") carries signatures, vectors
 *              of +-a; between them lie constant outlier channels of the keys
 *   sink       token 0: the sink's signature, and a small value
 *   hitters    one token in 64: the hitters' signature
 *   topics     64 of them, each run of 32 tokens has one: keys far apart
 *              share a signature
 *   words      some thousand, frequent ones often: part of key and value
 *   needles    the tokens of an answer's source have signatures that only
 *              the rows predicting the answer look for, in retrieval heads
 *
 * How strongly a query head looks for each is its kind: local, sink,
 * hitters, topic, retrieval or broad, changing from head to head and layer
 * to layer, with a strength of its own. Strengths grow with ln(tokens), so
 * that a structure keeps its share of the attention at any length.
 */
#ifndef KV_TRACES_SYNTH_ROW_H
#define KV_TRACES_SYNTH_ROW_H

#include <stdint.h>

#include "traces/trace/synth.h"
#include "traces/trace/trace.h"

enum { KV_SYNTH_DIM = 1024, KV_SYNTH_NEEDLE = 4 }; /* largest d; tokens */

typedef struct kv_synth_tables {
  const kv_synth *s;
  int fast, slow; /* fast pairs; first slow pair */
  float *turn;    /* [T][fast] cosine, sine */
  int32_t *token; /* [T] */
  int n_answers;
  kv_answer answer[16];
  float log_tokens;
} kv_synth_tables;

kv_rc kv_synth_tables_init(kv_synth_tables *x, const kv_synth *s, kv_err *e);
void kv_synth_tables_release(kv_synth_tables *x);

/* Row of token t into row[d]; l is the model's layer. */
void kv_synth_key(const kv_synth_tables *x, int l, int g, int t, float *row);
void kv_synth_value(const kv_synth_tables *x, int l, int g, int t, float *row);
void kv_synth_query(const kv_synth_tables *x, int l, int h, int t, float *row);

#endif
