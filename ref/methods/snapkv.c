/* SPDX-License-Identifier: Apache-2.0
 *
 * SnapKV: the prompt's last queries vote for what stays of the prompt. Their
 * rows are the observation window.
 *
 *   after the prompt, n > budget, w = window; for entries j < n - w:
 *     vote[j]  = sum over the last min(w, P) prompt rows of p[row][j]
 *                mean, sum: over the group's heads too, one sum
 *                max: each head's sum rounded, the largest of them
 *     score[j] = pooling none: vote; max: the largest vote within kernel div 2
 *                of j; avg: the sum of the votes there, zeros outside
 *     keep the best budget - w by score, and the last w
 *   a prompt that is read in chunks (prefill=N): so at the end of each, by the
 *     last w rows read so far, across chunks (ref/ground/chunk.h)
 *   grow=yes: afterwards every token is appended, nothing is dropped
 *   grow=no:  the same again after every `every` decode steps, by the rows
 *             decoded since; other lengths, sinks, recent and voters:
 *             METHODS.md, Compression again
 *
 * To the bit: softmax runs over all n columns, the window's included; pooling
 * over j < n - w only. Average pooling of sums stays a sum and is rounded after
 * it, as its divisor is common; of max votes it is one binary32 chain by index
 * from +0, divided by `kernel`.
 *
 * Li et al. 2024, SnapKV: LLM Knows What You are Looking for Before Generation.
 * The budget includes the window, and softmax runs over all columns: paper and
 * authors' code agree. Where not, or where the code leaves something open:
 * - The code selects for each query head, and so stores a cache as many times
 *   larger as a KV head has query heads (group=query_head). The default here is
 *   one selection a KV head, by the mean.
 * - Settings differ between its class (window 64, kernel 5, avg) and its
 *   configurations (32, 7, max). The defaults follow the latter, which the
 *   paper's tables used.
 * - It leaves equal scores in no order, and max pooling makes them routine:
 *   here the lower entry stays. It stores what it keeps by score, here the
 *   order is that of time; attention cannot tell.
 * - grow=no is not in the paper; every >= window keeps the votes a sum, so that
 *   no ring of rows is needed. The sums that live between steps are charged.
 *   R-KV's decode-time SnapKV leaves the window out of the softmax: not
 *   offered.
 * - Sparse-vLLM's settings, sinks=64:recent=512:grow=twice_past:voters=1 with
 *   budget=4672, window=32, group=max, pooling=none, stand with what is not
 *   offered of it in METHODS.md, Compression again.
 *
 * Family: drop. Acts: after the prompt; again with grow. Needs: probabilities
 * of the last rows. Bound: min(P, B) + t - P; grow=no: B + (t - P) mod every.
 * Bytes: B R. Gather: `kernel` neighbours. Reduce: largest of sums of P over
 * the window. Sample: top-k, and the window. Cost: window rows of observation
 * once; O(n) a compression.
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
    .title = "what the prompt's last queries look at",
    .paper = "Li et al. 2024, SnapKV: LLM Knows What You are Looking for "
             "Before Generation, arXiv:2404.14469",
    .observe = observe,
    .compress_lane = compress_lane,
};
