/* SPDX-License-Identifier: Apache-2.0
 *
 * PyramidKV: SnapKV's choice, with a budget that shrinks from layer to layer.
 *
 *   C = budget, w = window; l and L are the model's layer and layers, even if a
 *   trace has only some; all divisions are of integers, rounded down
 *   base = C - w;  min = base div beta;  max = 2 base - min
 *   n < C: all stays;  n < 2 base or L = 1: b(l) = base
 *   max >= n - w:  max = n - w, min = 2 base - max
 *   b(l) = max - l * ((max - min) div (L - 1))
 *   after the prompt: keep the best b(l) entries by SnapKV's score and the
 *   last w
 *   exact_total=yes: b(l) = max - (l * (max - min)) div (L - 1) in the lower
 *     half, b(L-1-l) = 2 base - b(l) in the upper, base in an odd middle: the
 *     layers' budgets sum to L * C exactly
 *   schedule=ratio: b(l) = (base * (beta (L - 1) - (beta - 1) l))
 *     div (beta (L - 1)), whatever n; base is the bottom layer's
 *   schedule=printed: b(l) = 2 base - l * (2 base - base / beta) / (L - 1), in
 *     reals, to the nearest whole number (a half: up), whatever n
 *
 * The rest is snapkv's, parameters included, with b(l) entries by score. If
 * sinks and recent are given, the schedule's w is sinks + recent. n is the
 * prompt's length at every compression; with grow=yes it is what the lane holds
 * at its compression. Within a sliding window (windowed=compress) C is the
 * layer's own budget; a budget given as a share of the prompt is smaller there.
 * n is at most what the next token sees. So each layer gets what it would in a
 * model of such layers only.
 *
 * Cai et al. 2024, PyramidKV. schedule=printed is the paper's, in real-valued
 * shares of the total K = L base. They fall in a straight line from k(0) = 2 K
 * / L to k(L-1) = K / (beta L). Its total exceeds L * C by L base / (2 beta).
 * The paper's formula of the line, k(L-1) - (k(L-1) - k(0)) / L * l, runs the
 * wrong way, from the top's share at l = 0. It divides by L, so it does not
 * reach the other end either. Here L - 1 divides and the bottom has most, as
 * the paper's text says. The default is the authors' framework
 * (KVCache-Factory), with its integer divisions and its beta of 20. Its floor
 * makes the total exceed L * C by (L / 2) * ((max - min) mod (L - 1)) entries.
 * The ledger shows the true total. The framework's script has window=8; the
 * default here is SnapKV's 32. kvpress computes in reals and falls back to
 * equal budgets if the schedule does not fit: not offered.
 *
 * schedule=ratio is Sparse-vLLM's (commits d526f0a and 18d3104). Its ratios
 * fall from .6 to .01, and each is divided by the first: beta=60. Its doubles
 * may give one less if the quotient is whole. Its eviction while decoding is
 * grow=twice_past (d526f0a) or past_more (18d3104).
 *
 * Family: drop. Acts: after the prompt; again with grow=no. Needs:
 * probabilities of the last queries. Bound: min(P, b(l) + w) + t - P, n = P.
 * Bytes: B R on average. Gather: `kernel` neighbours. Reduce: probability,
 * summed over the window, largest of neighbours. Sample: top-k, and the window.
 * Cost: as snapkv.
 */
#include "ref/methods/pyramidkv.h"

static const kv_param table[] = {PARAMS(KV_ROW){.name = NULL}};

static kv_rc open(const kv_shape *shape, void *p, kv_needs *needs, kv_err *e) {
  params *o = p;
  needs->lengths = true;
  if (o->schedule != MEAN && o->exact_total == YES)
    return kv_fail(e, KV_REFUSED,
                   "pyramidkv: exact_total=yes has no effect with schedule=%s, "
                   "whose budget is no mean; use only one of them",
                   o->schedule == RATIO ? "ratio" : "printed");
  return kv_open_grow(shape, "pyramidkv", o->budget, false, &o->w, &o->g, needs,
                      e);
}

static int past(const kv_at *at, const kv_lane *lane) {
  const params *o = at->params;
  int n = schedule_length(o, at->shape, lane->n, lane->data->window);
  return past_of_layer(o, at->shape->n_layers, at->layer, n);
}

static void observe(const kv_at *at, kv_lane *lane, const kv_rows *rows) {
  const params *o = at->params;
  kv_grow_observe(at, lane, rows, &o->w, &o->g, past(at, lane));
}

static void compress_lane(const kv_at *at, kv_lane *lane) {
  const params *o = at->params;
  kv_grow_compress(at, lane, &o->w, &o->g, past(at, lane));
}

const kv_method kv_method_pyramidkv = {
    KV_METHOD_OF(table, params, open),
    .revision = 2,
    .name = "pyramidkv",
    .title = "SnapKV with a budget that shrinks from layer to layer",
    .paper = "Cai et al. 2024, PyramidKV: Dynamic KV Cache Compression based "
             "on Pyramidal Information Funneling, arXiv:2406.02069",
    .spreads = true,
    .observe = observe,
    .compress_lane = compress_lane,
};
