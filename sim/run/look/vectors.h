/* SPDX-License-Identifier: Apache-2.0
 *
 * Test vectors for kernels: what one cell reads, computes and decides at chosen
 * steps of chosen layers, stage by stage, as safetensors files. A manifest has
 * the rule that defines each stage.
 *
 *   DIR/STAGE.safetensors   one for each stage; or, if raw,
 *   DIR/STAGE.MATRIX.bin    one for each matrix, only its bytes
 *   DIR/manifest.json       for people and programs: shapes, rules, digests
 *   DIR/manifest.tsv        the same tensors, a line each, with the offset of
 *                           their bytes, for programs without a JSON reader
 *
 * The folder appears whole or not at all, and the same command writes the same
 * bytes. A chunk that the method adds is the last of its head's chunks. Logits,
 * output and LSE are computed a second time in the plainest form of the
 * arithmetic, and must equal the engine's. Cost: a replay of the cell by one
 * thread up to the last step, on these layers and, if they read messages, on
 * those above. Memory: everything written, except q, k and v.
 */
#ifndef KV_SIM_VECTORS_H
#define KV_SIM_VECTORS_H

#include "sim/replay/engine/cell.h"

/* What to write; everything is borrowed. */
typedef struct kv_vectors_ask {
  kv_cell *cell;    /* open, and runs; its result is undefined afterwards */
  int steps;        /* at least 1 */
  const int *step;  /* [steps] tokens seen, ascending, from prompt_len (only the
                       compression) to n_tokens */
  int layers;       /* at least 1 */
  const int *layer; /* [layers] indexes of recorded layers, ascending */
  bool raw;         /* a file of bare bytes for each matrix, not safetensors */
  const char *dir;  /* the folder to make: missing or empty */
  bool (*stop)(void); /* polled every decode step: true ends it; or NULL */
} kv_vectors_ask;

/* Parses a list of steps, "first,+17,last,300", of a cell of shape s. first is
 * prompt_len + 1, last n_tokens; +k is k steps after the previous one in the
 * list (at its start, after first); a number is tokens seen. (*out)[*n] is
 * sorted and without repeats. KV_USAGE: no step of the cell. KV_RESOURCE:
 * memory. Free *out with free(), also after a failure. */
kv_rc kv_vectors_steps(const char *text, const kv_shape *s, int *n, int **out,
                       kv_err *e);
/* Parses a list of layers, "0,2", by the model's numbers, into indexes of
 * layers that t records; NULL text: all of them. KV_USAGE: a layer is not
 * recorded. *n, *out and the rest as above. */
kv_rc kv_vectors_layers(const char *text, const kv_trace *t, int *n, int **out,
                        kv_err *e);

/* Replays the cell and writes the folder. *stopped: `stop` returned true, and
 * nothing was written. KV_USAGE: dir exists and is not empty. KV_INPUT: the
 * cell fails, or the trace is damaged or changed meanwhile. KV_RESOURCE:
 * memory, or the folder or a file cannot be written. KV_INTERNAL: the second
 * computation differs. */
kv_rc kv_vectors_write(const kv_vectors_ask *ask, bool *stopped, kv_err *e);

#endif
