/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that the window methods (SnapKV, PyramidKV and relatives) add to the
 * papers' single compression after the prompt: they can always keep the first
 * entries, and compress again while decoding, every few steps or when a lane
 * reaches a length. A method puts kv_grow_options into its params and the rows
 * below into its table, and calls kv_open_grow once. Then it only says, for
 * each lane, how many entries it keeps by score: `past`.
 *
 * Sparse-vLLM is github.com/CURRENTF/Sparse-vLLM. Commit d526f0a is from the
 * time of its paper; 18d3104 is the newest that was read.
 */
#ifndef KV_REF_GROW_H
#define KV_REF_GROW_H

#include "ref/parts/parts.h"

/* How long a lane grows while decoding. */
enum {
  KV_GROW_YES,        /* without limit */
  KV_GROW_NO,         /* for `every` decode steps */
  KV_GROW_TWICE,      /* until it holds twice its budget */
  KV_GROW_TWICE_PAST, /* until it holds twice what is kept by score */
  KV_GROW_PAST_MORE   /* until it holds its budget plus what is kept by score */
};

/* In a method's params. Entries and tokens of one lane. */
typedef struct kv_grow_options {
  int grow, every; /* KV_GROW_x; decode steps between compressions, 0: unset */
  int sinks;       /* first entries, always kept */
  int recent;      /* last entries, always kept; 0: as many as the window */
  int voters;      /* last decode rows that vote; 0: as many as the window */
} kv_grow_options;

/* Rows of a parameter table: all options, or, for a method that compresses
 * again only by steps, grow and every. `member` is the kv_grow_options in the
 * params struct `type`. */
#define KV_AGAIN_PARAM(type, member)                                           \
  KV_INT_PARAM(                                                                \
      "every", type, member.every, "0", 0, 1 << 30, "steps",                   \
      "with grow=no: decode steps between compressions, at least the queries " \
      "that vote; 0: max(these, 128), 128 as in R-KV's SnapKV")
#define KV_GROW_PARAMS(type, member)                                           \
  KV_CHOICE_PARAM("grow", type, member.grow, "yes",                            \
                  "yes|no|twice|twice_past|past_more",                         \
                  "keep all generated tokens? yes as in the authors' code; "   \
                  "no: compress again every `every` steps; else compress a "   \
                  "lane that holds 2 budgets, 2 past or budget + past, as in " \
                  "Sparse-vLLM; past: the entries kept by score"),             \
      KV_AGAIN_PARAM(type, member),                                            \
      KV_INT_PARAM("sinks", type, member.sinks, "0", 0, 1 << 22, "tokens",     \
                   "first entries, always kept, part of the budget; 0 as in "  \
                   "the paper, 64 in Sparse-vLLM"),                            \
      KV_INT_PARAM("recent", type, member.recent, "0", 0, 1 << 22, "tokens",   \
                   "last entries, always kept, part of the budget, at least "  \
                   "window; 0: window as in the paper, 512 in Sparse-vLLM"),   \
      KV_INT_PARAM("voters", type, member.voters, "0", 0, 1 << 22, "queries",  \
                   "last decode queries that vote at a compression, at most "  \
                   "recent; 0: window, 1 in Sparse-vLLM")
#define KV_GROW_STEPS_PARAMS(type, member)                                     \
  KV_CHOICE_PARAM("grow", type, member.grow, "yes", "yes|no",                  \
                  "keep all generated tokens? yes as in the authors' code; "   \
                  "no: compress again, every `every` steps"),                  \
      KV_AGAIN_PARAM(type, member)

/* Most entries of `seen` tokens that a lane can hold when it compresses. With a
 * sliding window of `window` tokens, the next token sees one fewer; 0: no
 * window. */
KV_FN int kv_grow_within(int seen, int window) {
  return window && seen >= window ? window - 1 : seen;
}
/* Of opened options: `recent` and `voters` with their defaults, and the number
 * of entries at both ends of a lane that are kept without a score. */
KV_FN int kv_grow_recent(const kv_grow_options *g, const kv_window_options *w) {
  return g->recent ? g->recent : w->window;
}
KV_FN int kv_grow_voters(const kv_grow_options *g, const kv_window_options *w) {
  return g->voters ? g->voters : w->window;
}
KV_FN int kv_grow_ends(const kv_grow_options *g, const kv_window_options *w) {
  return g->sinks + kv_grow_recent(g, w);
}
/* Does a lane compress again by length? */
KV_FN bool kv_grow_by_length(const kv_grow_options *g) {
  return g->grow > KV_GROW_NO;
}
/* At what length? past: entries that it keeps by score. */
KV_FN int kv_grow_length(const kv_grow_options *g, const kv_window_options *w,
                         int past) {
  int64_t budget = (int64_t)past + kv_grow_ends(g, w), n = budget + past;
  if (g->grow == KV_GROW_TWICE) n = 2 * budget;
  if (g->grow == KV_GROW_TWICE_PAST) n = 2 * (int64_t)past;
  if (n <= budget) n = budget + 1;
  return n < INT32_MAX ? (int)n : INT32_MAX;
}
/* Does the decode row vote, at `step` tokens seen, in a lane of n entries? With
 * KV_GROW_YES no decode row is shown. Rows of the prompt always vote. */
KV_FN bool kv_grow_votes(const kv_grow_options *g, const kv_window_options *w,
                         const kv_shape *s, int step, int n, int past) {
  int left = kv_grow_by_length(g) ? kv_grow_length(g, w, past) - n
                                  : kv_steps_left(s, step, g->every);
  return left < kv_grow_voters(g, w);
}
/* If a compression is due by needs.every: does a lane of n entries compress at
 * `step` tokens seen? */
KV_FN bool kv_grow_compresses(const kv_grow_options *g,
                              const kv_window_options *w, const kv_shape *s,
                              int step, int n, int past) {
  return !kv_grow_by_length(g) || step == s->prompt_len ||
         n >= kv_grow_length(g, w, past);
}

/* Resolves g->every for grow=no if `least` decode queries vote. KV_REFUSED:
 * `every` is given with grow=yes, or is below `least`. */
kv_rc kv_open_every(const char *method, int least, kv_grow_options *g,
                    kv_err *e);
/* In open, instead of kv_open_window: resolves both structs against a lane's
 * budget in entries, which includes what is always kept, and fills in needs,
 * also for later compressions. even: every lane has exactly this budget; else
 * the votes held are charged by entry. KV_USAGE: no budget, or an even kernel.
 * KV_REFUSED: contradictory options. */
kv_rc kv_open_grow(const kv_shape *shape, const char *method, int budget,
                   bool even, kv_window_options *w, kv_grow_options *g,
                   kv_needs *needs, kv_err *e);
/* The hooks observe and compress_lane of such a method. past: entries that the
 * lane keeps by score besides its ends. A compression zeroes the votes. */
void kv_grow_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                     const kv_window_options *w, const kv_grow_options *g,
                     int past);
void kv_grow_compress(const kv_at *at, kv_lane *lane,
                      const kv_window_options *w, const kv_grow_options *g,
                      int past);

#endif
