/* SPDX-License-Identifier: Apache-2.0
 *
 * What is trained on: traces of one model, opened together, and cut into
 * pieces of consecutive tokens. Nothing of q, k and v is copied; a piece is
 * read through the map each time. With turns, a table of 4 bytes for each
 * token and element of a key stays in memory.
 */
#ifndef KV_SIM_TRAIN_DATA_H
#define KV_SIM_TRAIN_DATA_H

#include "ref/ground/rope.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

/* One trace. */
typedef struct kv_train_trace {
  kv_trace *trace;
  kv_turns turns; /* tables of rotation, where they are wanted */
  bool held;      /* judged by, never learned from */
} kv_train_trace;

/* Tokens first .. first + count - 1 of a trace. */
typedef struct kv_train_piece {
  const kv_train_trace *of;
  int first, count;
} kv_train_piece;

typedef struct kv_train_data {
  int traces, learned; /* all, and the first ones, which are learned from */
  kv_train_trace *trace;
  kv_shape shape; /* of the first; tokens and prompt are of each */
  int layers;     /* recorded by every trace that is learned from */
  const int *layer;
  int64_t tokens; /* that are learned from, in one pass */
  int pieces;
  kv_train_piece *piece; /* of the traces that are learned from */
} kv_train_data;

/* What is asked of traces: turns, RoPE tables, to turn keys back; answers, at
 * least one trace that is learned from has some. */
typedef struct kv_train_wants {
  const char *method; /* for sentences */
  bool turns, answers;
  int most; /* tokens of a piece */
} kv_train_wants;

/* Opens the traces and cuts those that are learned from into pieces. KV_INPUT:
 * a trace cannot be read, is of another geometry or model, has no RoPE
 * frequencies where turns are wanted, or holds a number that is not finite;
 * KV_USAGE: none has answers where they are wanted. Reads every trace that is
 * learned from once. */
kv_rc kv_train_data_open(const kv_train_wants *wants, int learned,
                         const char *const *path, int held,
                         const char *const *held_path, kv_train_data *out,
                         kv_err *e);
void kv_train_data_close(kv_train_data *d); /* accepts zeroed */

/* Index of the model's layer `layer` among those that a trace records, or -1.
 */
int kv_train_layer(const kv_trace *t, int layer);

/* Cuts a trace into pieces of at most `most` tokens, all but the last of that
 * many; the i-th, or false past the last. */
bool kv_train_cut(const kv_train_trace *of, int most, int i,
                  kv_train_piece *out);

/* --- vectors -------------------------------------------------------------- */

/* K and V of a token in a layer as one vector: keys of all KV heads before
 * their rotation, then their values. */
static inline int kv_train_width(const kv_shape *s) {
  return s->n_kv_heads * (s->d + s->d_v);
}
/* The vectors of n tokens of the at-th recorded layer: out[n][width]. token
 * NULL: first, first + 1, .. */
void kv_train_vectors(const kv_train_trace *of, const kv_kernels *kernels,
                      int at, int first, int n, const int *token, float *out);

#endif
