/* SPDX-License-Identifier: Apache-2.0
 *
 * SnapKV: the prompt's last queries, the observation window, vote for the
 * prompt tokens that stay.
 *
 *   after the prompt, n > budget, w = window; for entries j < n - w:
 *     vote[j]  = sum over the last min(w, P) prompt rows of p[row][j]
 *                mean, sum: over the group's heads too, one sum
 *                max: each head's sum rounded, the largest of them
 *     score[j] = pooling none: vote; max: the largest vote within kernel div 2
 *                of j; avg: the sum of the votes there, zeros outside
 *     keep the best budget - w by score, and the last w
 *   a prompt read in chunks (prefill=N): the same at the end of each chunk, by
 *     the last w rows read so far, across chunks (ref/ground/chunk.h)
 *   grow=yes: then every token is appended and nothing is dropped
 *   grow=no:  the same again after every `every` decode steps, by the rows
 *             decoded since; other lengths, sinks, recent and voters:
 *             METHODS.md, Compression again
 *
 * To the bit: the softmax covers all n columns, the window included; pooling
 * covers j < n - w only. Average pooling of sums stays a sum, rounded
 * afterwards, because its divisor is common. Average pooling of max votes is
 * one binary32 chain by index from +0, divided by `kernel`.
 *
 * Li et al. 2024, SnapKV: LLM Knows What You are Looking for Before Generation.
 * Paper and authors' code agree that the budget includes the window and that
 * the softmax covers all columns. Differences, and what the code leaves open:
 * - The code selects for each query head, so its cache is larger by the number
 *   of query heads per KV head (group=query_head). The default here is one
 *   selection per KV head, by the mean.
 * - The code's class (window 64, kernel 5, avg) and its configurations (32, 7,
 *   max) differ. The defaults follow the configurations, which the paper's
 *   tables used.
 * - The code leaves ties open, and max pooling makes them common: here the
 *   lower entry stays. It stores kept entries by score, here by time; attention
 *   cannot tell.
 * - grow=no is not in the paper. every >= window keeps the votes a sum, so no
 *   ring of rows is needed; sums that live between steps are charged. R-KV's
 *   decode-time SnapKV leaves the window out of the softmax: not offered.
 * - METHODS.md, Compression again, has Sparse-vLLM's settings
 *   (sinks=64:recent=512:grow=twice_past:voters=1 with budget=4672, window=32,
 *   group=max, pooling=none) and what is not offered of it.
 *
 * Family: drop. Acts: after the prompt; again with grow=no. Needs:
 * probabilities of the last queries. Bound: min(P, B) + t - P; grow=no: B + (t
 * - P) mod every. Bytes: B R. Gather: `kernel` neighbours. Reduce: probability,
 * summed over the window, largest of neighbours. Sample: top-k, and the window.
 * Cost: window rows of observation once; O(n) a compression.
 */
#include "ref/methods/snapkv.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  needs->lengths = true;
  return kv_open_grow(shape, "snapkv", o->budget, true, &o->w, &o->g, needs, e);
}

static int past(const params *o) {
  return o->budget - kv_grow_ends(&o->g, &o->w);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_grow_observe(at, lane, rows, &o->w, &o->g, past(o));
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_grow_compress(at, lane, &o->w, &o->g, past(o));
}

const kv_method kv_method_snapkv = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "snapkv",
    .title = "what the prompt's last queries attend",
    .paper = "Li et al. 2024, SnapKV: LLM Knows What You are Looking for "
             "Before Generation, arXiv:2404.14469",
    .observe = observe,
    .compress_lane = compress_lane,
};
