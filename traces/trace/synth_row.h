/* SPDX-License-Identifier: Apache-2.0
 *
 * One row of a synthetic trace, computed from its coordinates alone: seed,
 * layer, head and token. Private to synth.c of this folder. Only tables are
 * kept between rows, so any thread can compute rows in any order. The
 * structures:
 *
 *   channels   the first RoPE pairs ("fast": an eighth of d, at most 16) carry
 *              one constant vector, rotated by the position: keys near the
 *              query score high. Pairs from d / 4 on ("slow") carry signatures,
 *              vectors of +-a. Between them are constant outliers of the keys
 *   sink       token 0: a signature of its own, and a small value
 *   hitters    one token in 64, on average: the hitters' signature
 *   topics     64 of them, each run of 32 tokens has one: keys far apart share
 *              a signature
 *   words      2,047 a topic, frequent ones often: part of key and value
 *   needles    the tokens that an answer repeats have signatures that only the
 *              rows predicting the answer look for, in retrieval heads
 *
 * A query head's kind says how strongly it looks for each: local, sink,
 * retrieval, hitters, topic or broad, different from head to head and layer to
 * layer. What a head looks for most grows with ln(tokens), so that a structure
 * keeps its share of the attention at any length.
 */
#ifndef KV_TRACES_SYNTH_ROW_H
#define KV_TRACES_SYNTH_ROW_H

#include <stdint.h>

#include "traces/container/writer.h"
#include "traces/trace/synth.h"
#include "traces/trace/trace.h"

enum {
  KV_SYNTH_DIM = 1024, /* largest d */
  KV_SYNTH_NEEDLE = 4  /* tokens of a needle and of its answer */
};

/* Tables of one trace; any number of threads may read them. */
typedef struct kv_synth_tables {
  const kv_synth *s;    /* must outlive the tables */
  int fast;             /* fast RoPE pairs */
  int slow;             /* the first slow pair */
  float *turn[2];       /* [n_tokens][fast][2] cosine, sine of the rotation: for
                           layers without a window, and with one; the second
                           NULL: the same */
  int32_t *token;       /* [n_tokens] token ids */
  int n_answers;        /* 0 to 16 */
  kv_answer answer[16]; /* positions of answers and their needles */
  float log_tokens;     /* ln(n_tokens) */
} kv_synth_tables;

/* Makes the tables for s, whose fields were checked. KV_RESOURCE: memory; *x is
 * then empty, and release accepts it. */
kv_rc kv_synth_tables_init(kv_synth_tables *x, const kv_synth *s, kv_err *e);
void kv_synth_tables_release(kv_synth_tables *x);

/* Writes the row of token t of layer l (the model's number), KV head g or query
 * head h, into row[d]; keys and queries as they are after RoPE. */
void kv_synth_key(const kv_synth_tables *x, int l, int g, int t, float *row);
void kv_synth_value(const kv_synth_tables *x, int l, int g, int t, float *row);
void kv_synth_query(const kv_synth_tables *x, int l, int h, int t, float *row);

/* The learned sink of a query head, a logit from 2 to 6. */
float kv_synth_sink(const kv_synth_tables *x, int l, int h);

/* synth_meta.c: passes all metadata to the writer, of version 2 if any field
 * needs it. KV_USAGE: the model's name is not UTF-8. KV_RESOURCE: memory. */
kv_rc kv_synth_describe(const kv_synth *s, const kv_synth_tables *tables,
                        kv_st_writer *writer, kv_err *e);

#endif
