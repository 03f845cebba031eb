/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of deltakv, shared with its CUDA twin (ref/lane/params.h), how
 * far a layer is compressed at a step, and the candidates there.
 */
#ifndef KV_REF_METHODS_DELTAKV_H
#define KV_REF_METHODS_DELTAKV_H

#include "ref/lane/params.h"
#include "ref/parts/filter.h"
#include "ref/parts/residual.h"

enum { TOP, ALL };     /* retrieve */
enum { DEVICE, HOST }; /* where latents are stored */
enum { LAYER, GROUP }; /* temporary */

/* A lane's state: an int32, how far it is compressed; from byte VALUES on each
 * candidate's largest value over the heads, [n_tokens] floats; with self=yes
 * the CUDA twin's K (before its rotation) and V of each reference; for a prompt
 * in chunks the sums of a chunk, from byte sums_at on. */
enum { VALUES = 16 };

#define PARAMS(P)                                                              \
  P(INT, top, NULL, 0, 1 << 30, "tokens",                                      \
    "candidates that the following layers attend; default 0: the share r of "  \
    "them")                                                                    \
  P(REAL, r, NULL, 0, 1,                                                       \
    "top as a share of a step's candidates, rounded down, at least one; "      \
    "default 0.17 as in the authors' evaluation, 0 if top is given",           \
    .unit = "share")                                                           \
  P(INT, prompt_top, "0", 0, 1 << 30, "tokens",                                \
    "top for a prompt's later chunks (prefill=N); 0: as in decoding, as in "   \
    "the engine; 4096 in the authors' evaluation",                             \
    .later = true)                                                             \
  P(TEXT, full,                                                                \
    "layers that keep everything, such as 0/1/2/8/18; default for 28 and 64 "  \
    "layers the paper's (Table 7), else OmniKV's filters and all layers "      \
    "above the first")                                                         \
  P(PART, kv_residual by, KV_SINK_PARAM(params, by))                           \
  P(INT, recent, "128", 1, 1 << 29, "tokens",                                  \
    "R: the newest R to 2 R - 1 tokens stay uncoded; 128 as in the authors' "  \
    "evaluation")                                                              \
  P(ROW, KV_LATENT_PARAMS(params, by))                                         \
  P(CHOICE, retrieve, "top", "top|all",                                        \
    "top: the best candidates; all: no layer chooses, every token is "         \
    "attended")                                                                \
  P(CHOICE, score, "dot", "prob|logit|dot",                                    \
    "how a query head values a candidate; dot as in the engine, prob as in "   \
    "the Hugging Face path")                                                   \
  P(ROW, KV_REFERENCE_PARAMS(params, by))                                      \
  P(CHOICE, tier, "device", "device|host",                                     \
    "where latents are stored; host: a step fetches those it attends")         \
  P(ROW, KV_KEPT_PARAM(params, by))                                            \
  P(CHOICE, temporary, "layer", "layer|group",                                 \
    "how long rows decoded from latents stay: until their layer has "          \
    "attended, or the last layer that follows the same choice (counts in "     \
    "`peak` alone)",                                                           \
    .later = true)                                                             \
  P(ROW, KV_FILE_PARAM(                                                        \
             "compressor", params, by.file, KV_FILE_BESIDE, &kv_latents_kind,  \
             "weights: safetensors, as `kvreplay train deltakv` writes them; " \
             "none: an ablation, where a token is the mean of its references", \
             .or_none = true))                                                 \
  P(ONLY, kv_layer_list list) /* of `full` */
KV_PARAMS(PARAMS);

/* After `seen` tokens, tokens sink .. end - 1 are compressed: all except the
 * last R to 2 R - 1, in whole multiples of R. */
KV_FN int compressed_end(const params *o, int seen) {
  int sink = o->by.sink, whole = seen > sink ? (seen - sink) / o->recent : 0;
  return sink + (whole > 1 ? whole - 1 : 0) * o->recent;
}

/* Returns n: tokens sink .. sink + n - 1 are candidates. They were compressed
 * when the step, or the chunk, began. */
KV_FN int contenders(const params *o, const kv_shape *s, int step) {
  bool chunk = step <= s->prompt_len;
  return compressed_end(o, chunk ? kv_chunk_first(s, step) : step - 1) -
         o->by.sink;
}

/* How many of n candidates win, in a chunk or in a step. */
KV_FN int winners(const params *o, int n, bool chunk) {
  int k = o->r > 0 ? (int)kv_mul(o->r, (float)n) : o->top;
  if (chunk && o->prompt_top > 0) k = o->prompt_top;
  return k < 1 ? 1 : k;
}

/* Bytes of a lane's state before the sums of a chunk. */
KV_FN size_t sums_at(const kv_shape *s, const params *o) {
  size_t row = (size_t)(s->d + s->d_v), n = (size_t)s->n_tokens;
  if (o->by.self) n += (size_t)o->by.most * row;
  return (VALUES + n * sizeof(float) + 7) / 8 * 8;
}

#endif
