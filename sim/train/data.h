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
  kv_trace *trace; /* open */
  kv_turns turns;  /* tables of RoPE rotations, where they are wanted */
  bool held;       /* judged by, never learned from */
} kv_train_trace;

/* Tokens first .. first + count - 1 of a trace. */
typedef struct kv_train_piece {
  const kv_train_trace *of;
  int first, count;
} kv_train_piece;

typedef struct kv_train_data {
  int traces;            /* learned from, then held out */
  int learned;           /* the first so many are learned from */
  kv_train_trace *trace; /* [traces] */
  kv_shape shape; /* of the first; n_tokens and prompt_len differ in others */
  int layers;     /* that the first trace records, and every one learned from */
  const int *layer; /* [layers] the model's numbers, ascending */
  int64_t tokens;   /* that are learned from, in one pass */
  int pieces;
  kv_train_piece *piece; /* [pieces] of the traces that are learned from */
} kv_train_data;

/* What is asked of traces. */
typedef struct kv_train_wants {
  const char *method; /* for sentences */
  bool turns;         /* RoPE tables, to turn keys back */
  bool answers;       /* at least one trace that is learned from has answers */
  int most;           /* tokens of a piece, at least 1 */
} kv_train_wants;

/* Opens the traces and cuts those that are learned from into pieces. KV_INPUT:
 * a trace cannot be read, is of another geometry or model, lacks a layer, has
 * no RoPE frequencies where turns are wanted, or holds a number that is not
 * finite, or none has answers where they are wanted; KV_USAGE: learned is 0;
 * KV_RESOURCE: memory. path: [learned], held_path: [held]. Reads every trace
 * once. Close it, also after a failure. */
kv_rc kv_train_data_open(const kv_train_wants *wants, int learned,
                         const char *const *path, int held,
                         const char *const *held_path, kv_train_data *out,
                         kv_err *e);
void kv_train_data_close(kv_train_data *d); /* accepts zeroed */

/* Index of the model's layer `layer` among those that a trace records, or -1.
 */
int kv_train_layer(const kv_trace *t, int layer);

/* *out: the i-th piece of a trace that is cut into pieces of `most` tokens, the
 * last of which may be shorter. False past the last. */
bool kv_train_cut(const kv_train_trace *of, int most, int i,
                  kv_train_piece *out);

/* --- vectors -------------------------------------------------------------- */

/* K and V of a token in a layer as one vector: keys of all KV heads before
 * their rotation, then their values. */
static inline int kv_train_width(const kv_shape *s) {
  return s->n_kv_heads * (s->d + s->d_v);
}
/* Writes the vectors of n tokens of the at-th layer that the trace records to
 * out[n][kv_train_width]: of token[0..n), or, token NULL, of first, first + 1,
 * .. The trace was opened with turns. */
void kv_train_vectors(const kv_train_trace *of, const kv_kernels *kernels,
                      int at, int first, int n, const int *token, float *out);

#endif
