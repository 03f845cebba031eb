/* SPDX-License-Identifier: Apache-2.0
 *
 * Vectors for tests of kernels: what one cell reads, computes and decides at
 * chosen steps of chosen layers, stage by stage, as safetensors and a
 * manifest that says which rule defines each.
 *
 *   DIR/STAGE.safetensors   one for each stage there is; or, raw,
 *   DIR/STAGE.MATRIX.bin    one for each matrix, nothing but its bytes
 *   DIR/manifest.json       for people and programs: shapes, rules, digests
 *   DIR/manifest.tsv        the same tensors, a line each, with the offset of
 *                           their bytes, for programs without a JSON reader
 *
 * The folder appears whole or not at all, and the same command writes the
 * same bytes. Logits, output and LSE are computed a second time on the way,
 * in the plainest form of the arithmetic, and must be those of the engine.
 * Cost: the cell replayed on these layers up to the last step, by one thread;
 * memory: what is written, but for q, k and v.
 */
#ifndef KV_SIM_VECTORS_H
#define KV_SIM_VECTORS_H

#include "sim/cell.h"

typedef struct kv_vectors_ask {
  kv_cell *cell;    /* opened, runs; its digests mean nothing afterwards */
  int steps;        /* tokens seen: prompt_len, where only settling is */
  const int *step;  /* [steps] seen, .. T, ascending */
  int layers;       /* */
  const int *layer; /* [layers] among the recorded layers, ascending */
  bool raw;
  const char *dir;    /* not there, or an empty folder */
  bool (*stop)(void); /* or NULL; polled every step */
} kv_vectors_ask;

/* Lists of a command line. "first,+17,last,300": first is prompt_len + 1, +k
 * is k steps after the one before it (after first, if it stands in front), a
 * number is tokens seen. Sorted, each once. KV_USAGE for what is no step of
 * the cell. *out is freed with free(), also after a failure. */
kv_rc kv_vectors_steps(const char *text, const kv_shape *s, int *n, int **out,
                       kv_err *e);
/* "0,2": the model's numbers; NULL: all that are recorded. */
kv_rc kv_vectors_layers(const char *text, const kv_trace *t, int *n, int **out,
                        kv_err *e);

/* KV_USAGE where dir cannot be; KV_INPUT where the cell fails; KV_INTERNAL
 * where the second computation differs. *stopped: nothing was written. */
kv_rc kv_vectors_write(const kv_vectors_ask *ask, bool *stopped, kv_err *e);

#endif
