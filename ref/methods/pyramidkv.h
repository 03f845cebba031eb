/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of pyramidkv, shared with its CUDA twin (ref/lane/params.h).
 */
#ifndef KV_REF_METHODS_PYRAMIDKV_H
#define KV_REF_METHODS_PYRAMIDKV_H

#include "ref/lane/params.h"
#include "ref/parts/grow.h"

enum { NO, YES };              /* exact_total */
enum { MEAN, RATIO, PRINTED }; /* schedule */

#define PARAMS(P)                                                              \
  P(INT, budget, NULL, 1, 1 << 29, "tokens",                                   \
    "C of the schedule: the layers' nominal mean of tokens, window included; " \
    "must be given",                                                           \
    .knob = KV_KNOB_ENTRIES)                                                   \
  P(PART, kv_window_options w, KV_WINDOW_PARAMS(params, w, 1))                 \
  P(INT, beta, "20", 1, 1 << 20, NULL,                                         \
    "the top layer gets base div beta; 20 as in the authors' code, 60 in "     \
    "Sparse-vLLM")                                                             \
  P(CHOICE, exact_total, "no", "no|yes",                                       \
    "make the layers' budgets sum to L times the mean; no as in the authors' " \
    "code")                                                                    \
  P(CHOICE, schedule, "mean", "mean|ratio|printed",                            \
    "mean: budget is the layers' mean, as in the authors' code; ratio: it is " \
    "the bottom layer's, as in Sparse-vLLM; printed: a line in reals from "    \
    "twice the mean, as in the paper's formulas")                              \
  P(PART, kv_grow_options g, KV_GROW_PARAMS(params, g))
KV_PARAMS(PARAMS);

/* Entries that layer l keeps besides the window, by PyramidKV's integer
 * schedule for `capacity` entries a lane on average; n: tokens of the prompt.
 * *all: n is below capacity, and the layer keeps everything. */
KV_FN int schedule_of_layer(int capacity, int window, int layers, int l, int n,
                            int beta, bool *all) {
  int base = capacity - window, min = base / beta, max = 2 * base - min;
  *all = n < capacity;
  if (*all || n < 2 * base || layers == 1) return base;
  if (max >= n - window) {
    max = n - window;
    min = 2 * base - max;
  }
  return max - l * ((max - min) / (layers - 1));
}

/* The same by a straight line from max (layer 0) to 2 base - max, rounded so
 * that layers l and layers - 1 - l sum to 2 base: all sum to layers * base. */
KV_FN int exact_of_layer(int max, int base, int layers, int l) {
  int mirror = layers - 1 - l, lower = l < mirror ? l : mirror, b;
  int64_t fall = 2 * ((int64_t)max - base);
  if (l == mirror) return base;
  b = max - (int)(lower * fall / (layers - 1));
  return l < mirror ? b : 2 * base - b;
}

/* A straight line from base (layer 0) to base / beta, rounded down:
 * Sparse-vLLM's schedule. Its ratios .6 to .01 are beta = 60. */
KV_FN int ratio_of_layer(int base, int layers, int l, int beta) {
  int64_t whole = (int64_t)beta * (layers - 1);
  if (layers == 1) return base;
  return (int)(base * (whole - (int64_t)(beta - 1) * l) / whole);
}

/* A straight line from 2 base (layer 0) to base / beta, to the nearest entry,
 * halves up: the paper's real-valued shares of all layers' entries. */
KV_FN int printed_of_layer(int base, int layers, int l, int beta) {
  int64_t whole = (int64_t)beta * (layers - 1);
  if (layers == 1) return base;
  return (int)((2 * base * (2 * whole - (2 * (int64_t)beta - 1) * l) + whole) /
               (2 * whole));
}

/* Entries that the layer keeps by score from a prompt of n tokens. With n below
 * the budget: base, which keeps them all; RATIO and PRINTED ignore n. */
KV_FN int past_of_layer(const params *o, int layers, int layer, int n) {
  int ends = kv_grow_ends(&o->g, &o->w), base = o->budget - ends;
  bool all;
  if (o->schedule == RATIO) return ratio_of_layer(base, layers, layer, o->beta);
  if (o->schedule == PRINTED)
    return printed_of_layer(base, layers, layer, o->beta);
  if (o->exact_total == NO)
    return schedule_of_layer(o->budget, ends, layers, layer, n, o->beta, &all);
  int max = schedule_of_layer(o->budget, ends, layers, 0, n, o->beta, &all);
  return exact_of_layer(max, base, layers, layer);
}

/* The schedule's n for a lane of n entries: what it held at its compression.
 * Lanes that compress again have one budget each time, by the tokens seen at
 * the prompt's end. window: tokens of the layer's sliding window, else 0. */
KV_FN int schedule_length(const params *o, const kv_shape *s, int n,
                          int window) {
  return kv_grow_within(o->g.grow == KV_GROW_YES ? n : s->prompt_len, window);
}

#endif
