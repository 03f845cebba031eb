/* SPDX-License-Identifier: Apache-2.0
 *
 * The bits that a coder like CacheGen's (arXiv 2310.07240) could not go below:
 * a measured number of a trace, not a method. Keys as they are cached (rotated)
 * and values are quantised; the empirical entropy of the codes, each channel of
 * a layer with a distribution of its own over the whole trace, is what any
 * coder with one table a channel needs at least. What the paper's profiled
 * tables and its arithmetic coder lose is not in it, nor is the tables' size,
 * which stands beside it.
 *
 *   C = bins / 2 - 1; scale = the largest magnitude of a token's row, in
 *   bfloat16; code = rint(x * C / scale) within -C .. C; x^ = code * scale / C
 *
 * deltas: groups of 10 tokens, of which the first, the anchor, has 8 bits
 *   (bins 256), and of the others the difference to the decoded anchor is
 *   quantised, as the paper says
 * tokens: every token is quantised as it is, as the released serialiser does
 *
 * bins, as the released one has them for 32 layers: keys 32 in the first third
 * of the layers and 16 below; values 32 in the first sixteenth and 16 below;
 * both 32 in one layer at least.
 *
 * Binary64 of + - * /, rint and arithmetic 6's log, in the order of the tokens:
 * the same on every machine. Called by `kvreplay residuals`.
 */
#ifndef KV_SIM_INSPECT_CACHEGEN_H
#define KV_SIM_INSPECT_CACHEGEN_H

#include "ref/ground/err.h"
#include "ref/kernels/kernels.h"
#include "traces/trace/trace.h"

enum { KV_ENTROPY_KEYS, KV_ENTROPY_VALUES, KV_ENTROPY_PARTS };
enum { KV_CODED_DELTAS, KV_CODED_TOKENS, KV_CODINGS };      /* the two above */
extern const char *const kv_entropy_part[KV_ENTROPY_PARTS]; /* k v */
extern const char *const kv_coding_name[KV_CODINGS];        /* deltas tokens */

/* A layer's keys or values in one coding; bits are bits an element. */
typedef struct kv_entropy {
  int bins;         /* of the alphabet, anchors apart: 32 or 16 */
  int64_t elements; /* tokens * channels */
  double bits;      /* the entropy of the codes */
  double scales;    /* 16 bits a token */
  double tables;    /* 16 bits a bin, channel and alphabet */
  double error;     /* squares of x - x^ over squares of x */
} kv_entropy;

/* The bins of keys or values (part) of a layer, by its number in a model of
 * n_layers. */
int kv_entropy_bins(int part, int layer, int n_layers);

/* Fills out[KV_ENTROPY_PARTS * KV_CODINGS], a part's codings together, of the
 * i-th recorded layer. KV_INPUT: the trace is bad; KV_RESOURCE. Memory: a
 * layer's keys or values in binary32, and 2 KiB of counts a channel. */
kv_rc kv_entropy_layer(const kv_trace *t, int i, const kv_kernels *kernel,
                       kv_entropy *out, kv_err *e);

#endif
