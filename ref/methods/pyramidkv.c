/* SPDX-License-Identifier: Apache-2.0
 *
 * PyramidKV: SnapKV's choice with a budget that shrinks from layer to layer.
 *
 *   C = budget, w = window, l and L the model's layer and layers, also where a
 *   trace has some of them; all divisions are of integers, rounded down
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
 * Everything else is snapkv's, its parameters too, with b(l) for its best and
 * the schedule's w being sinks + recent where they are given. With grow=yes n
 * is what the lane holds at its compression; else it is the prompt's length at
 * every compression. Within a sliding window (windowed=compress) C is the
 * layer's own budget, which a share of the prompt makes smaller there, and n at
 * most what the next token sees: each layer has what it has in a model of such
 * layers alone.
 *
 * Cai et al. 2024, PyramidKV. The paper gives shares of the total, in reals,
 * which lectures print as k(0) = 2 K / L and k(L-1) = K / (beta L), K = L base,
 * and a straight line between: schedule=printed. It exceeds L * C by L base /
 * (2 beta). Their formula of the line, k(L-1) - (k(L-1) - k(0)) / L * l, runs
 * the wrong way, the top's share at l = 0, and would not arrive, as it divides
 * by L; here L - 1 divides and the bottom has most, as the text says. The
 * default is that of the authors' framework (KVCache-Factory), integer
 * divisions included, whose floor makes the total exceed L * C by (L / 2) *
 * ((max - min) mod (L - 1)) entries, and beta is its 20; the ledger shows the
 * true total. The framework's script has window=8; here it is SnapKV's 32.
 * kvpress computes in reals and falls back to equal budgets where the schedule
 * does not fit: not offered.
 *
 * schedule=ratio is Sparse-vLLM's (commits d526f0a and 18d3104): its ratios
 * fall from .6 to .01 and each is divided by the first, which is beta=60. Its
 * doubles may give one less where the quotient is whole. Its evicting while
 * decoding is grow=twice_past (d526f0a) or past_more (18d3104).
 *
 * Family: drop. Acts: after the prompt; again with grow. Needs: probabilities
 * of the last rows. Bound: min(P, b(l) + w) + t - P, n = P. Bytes: B R on
 * average. Gather: `kernel` neighbours. Reduce: largest of sums of P over the
 * window. Sample: top-k, and the window. Cost: as snapkv.
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
