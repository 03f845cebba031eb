/* SPDX-License-Identifier: Apache-2.0
 *
 * Scorers: what gives a number to every entry of a lane that may go, so that
 * the best stay. A scorer says what it needs - query rows, state, rotations, a
 * file - and has one function for its scores; when a compression is due, which
 * entries are never asked about, and how positions are read are options that
 * all of them share. A method over a scorer adds how the budget is spent: the
 * best of each lane, of a layer's lanes together, of chunks.
 *
 * A scorer is a table kv_scorer_x and its twin in gpu/parts. Only open may
 * fail. Each is written to the bit in the file of its table. A score that is
 * not finite counts as the least number, -FLT_MAX. One that is a method, too,
 * stands in ref/methods/x.c with its row, KV_SCORER_METHOD.
 */
#ifndef KV_REF_SCORERS_H
#define KV_REF_SCORERS_H

#include "ref/ground/arith.h"
#include "ref/parts/parts.h"
#include "ref/parts/scored.h" /* made from methods.mk */

/* The one list of scorers; KV_SCORE_x is the value of the parameter `score`.
 * KV_SCORED: those of methods.mk that are marked as scorers. */
#define KV_SCORERS(X) X(snapkv) X(h2o) KV_SCORED(X) X(tova) X(file)

#define KV_SCORER_NUMBER(x) KV_SCORE_##x,
#define KV_SCORER_NAME(x) "|" #x
enum { KV_SCORERS(KV_SCORER_NUMBER) KV_SCORES };
#define KV_SCORER_CHOICES (&(KV_SCORERS(KV_SCORER_NAME))[1])

/* Values of the parameters form and reindex (KV_FORM_PARAMS). */
enum { KV_FORM_PREFILL, KV_FORM_DECODE, KV_FORM_BOTH };
enum { KV_REINDEX_NO, KV_REINDEX_YES };
/* Of `cross`, and of `covariance` and `vnorm`; 0 is the default of a method
 * that has no such parameter. */
enum { KV_CROSS_NO, KV_CROSS_YES };
enum { KV_TERM_YES, KV_TERM_NO };

/* What methods over scorers share: a struct in their params. A method's table
 * has rows for those that it offers; its open sets the rest or leaves them 0,
 * with which lag and future take the scorer's default. */
typedef struct kv_score_options {
  int score;             /* KV_SCORE_x */
  kv_window_options w;   /* window: the last entries, which always stay; kernel,
                            pooling: of votes; group */
  int sinks;             /* the first entries, which always stay */
  int form, every;       /* KV_FORM_x; decode steps between compressions */
  int reindex;           /* KV_REINDEX_x */
  int lag, cross;        /* lagkv: entries a partition, KV_CROSS_x; else 0 */
  int future;            /* expected: positions to come that are averaged */
  int covariance, vnorm; /* expected: KV_TERM_x, are these terms there? */
  float epsilon;         /* expected: added to a score before vnorm */
  kv_file file;          /* file: the scores */
  int tensor;            /* .. where in kv_at.asset they are: the tensors of the
                            files that the method's table has before it */
  int rows;              /* resolved: last rows before a compression that the
                            scorer is shown; 0: none */
  size_t state;          /* resolved: its bytes of the lane's */
} kv_score_options;

/* A scorer. */
typedef struct kv_scorer {
  const char *name;
  /* Resolves its options against the budget of a lane, in entries, and fills in
   * what it needs; o->rows and o->state too, which are 0 before. KV_USAGE: an
   * even kernel; KV_REFUSED, with a sentence: the options contradict one
   * another, or a score's sum is not exact. */
  kv_rc (*open)(const kv_shape *shape, const char *method, int budget,
                kv_score_options *o, kv_needs *needs, kv_err *e);
  /* Takes rows that it is shown into its state; NULL where it looks at none. */
  void (*observe)(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                  const kv_score_options *o);
  /* out[i] is the score of entry first + i, i < n; n >= 1. */
  void (*score)(const kv_at *at, const kv_lane *lane, const kv_score_options *o,
                int first, int n, float *out);
  bool by_entry; /* its state holds numbers of each token */
  bool lengths;  /* needs.lengths of its method, whatever the options */
} kv_scorer;

#define KV_SCORER_TABLE(x) extern const kv_scorer kv_scorer_##x;
KV_SCORERS(KV_SCORER_TABLE)

/* --- parameters ----------------------------------------------------------- */

/* Rows of a parameter table; `member` is the name of the kv_score_options in
 * the params, a struct of `type`. */
#define KV_SCORE_PARAMS(type, member, unless, ...)                             \
  KV_CHOICE_PARAM("score", type, member.score, unless, KV_SCORER_CHOICES,      \
                  "scorer of the entries; snapkv: the votes of the prompt's "  \
                  "last queries; file: the numbers of a file",                 \
                  __VA_ARGS__),                                                \
      KV_FILE_PARAM("scores", type, member.file, KV_FILE_OPTIONAL,             \
                    &kv_scores_kind,                                           \
                    "with score=file: a number for each layer, KV head and "   \
                    "token, as kvreplay.scores writes them",                   \
                    .later = true)
#define KV_THRESHOLD_PARAM(type, member)                                       \
  KV_REAL_PARAM("threshold", type, member, NULL, -1e29, 1e29,                  \
                "entries that score less go, whatever the budget; default: "   \
                "none, as in the paper",                                       \
                .later = true)
#define KV_SINKS_PARAM(type, member)                                           \
  KV_INT_PARAM("sinks", type, member.sinks, NULL, 0, 1 << 22, "tokens",        \
               "first entries, always kept; default the scorer's: min(4, "     \
               "budget - 1) for lagkv and expected, as in kvpress, else 0")
#define KV_LAST_PARAM(type, member)                                            \
  KV_INT_PARAM("last", type, member.w.window, "0", 0, 1 << 22, "tokens",       \
               "last entries, always kept; none as in the paper")
#define KV_FORM_PARAMS(type, member)                                           \
  KV_CHOICE_PARAM("form", type, member.form, "prefill", "prefill|decode|both", \
                  "when lanes are compressed: once after the prompt, only "    \
                  "while decoding, or both; prefill as in kvpress"),           \
      KV_INT_PARAM("every", type, member.every, NULL, 0, 1 << 30, "steps",     \
                   "decode steps between compressions; default 512 as in "     \
                   "kvpress, 0 with form=prefill"),                            \
      KV_CHOICE_PARAM(                                                         \
          "reindex", type, member.reindex, "no", "no|yes",                     \
          "attend the i-th entry at the i-th position? no: at its own, as in " \
          "the papers; yes: as kvpress's key rotation")

/* --- what scorers call ---------------------------------------------------- */

extern const kv_asset_kind kv_scores_kind; /* of score=file */
/* The score of a token that the file does not cover. */
#define KV_UNSCORED 0x1p100f
/* Of the tensor t of a file of scores: token id's in the row of a KV head. */
KV_FN float kv_score_of(const kv_tensor *t, int kv_head, uint32_t id) {
  int64_t n = t->dim[1];
  return id < n ? ((const float *)t->data)[kv_head * n + id] : KV_UNSCORED;
}

/* A score as it ranks: what is not finite is the least number there is. */
KV_FN float kv_score_finite(float x) {
  return kv_finite(x) ? x : kv_float(0xff7fffffu);
}

/* --- what methods over a scorer call -------------------------------------- */

/* In open: resolves the options against a lane's budget in entries and fills in
 * what the scorer and the options need. KV_USAGE: no budget, an even kernel;
 * KV_REFUSED: options that contradict one another, or sums that are not exact,
 * each with a sentence. */
kv_rc kv_score_open(const kv_shape *shape, const char *method, int budget,
                    kv_score_options *o, kv_needs *needs, kv_err *e);
/* KV_REFUSED, with a sentence: a file of scores is named and another scorer
 * is. kv_score_open asks it, too. */
kv_rc kv_score_unread(const char *method, const kv_score_options *o, kv_err *e);
/* The hook observe: shows the scorer the rows of the prompt, and of the decode
 * steps the last o->rows before a compression. */
void kv_score_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                      const kv_score_options *o);
/* Returns n, where entries [*first, *first + n) of a lane of `entries` are
 * those that may go; n may be 0 or less: all are protected. */
KV_FN int kv_score_span(const kv_score_options *o, int entries, int *first) {
  int past = entries - o->sinks;
  *first = o->sinks;
  return past - (o->lag ? o->lag + past % o->lag : o->w.window);
}
/* How many of these the budget of a lane leaves beside those protected. */
KV_FN int kv_score_past(const kv_score_options *o, int entries, int budget) {
  int first;
  return budget - (entries - kv_score_span(o, entries, &first));
}
/* [n] scores of these, in the hook's workspace; n >= 1. */
float *kv_score(const kv_at *at, const kv_lane *lane, const kv_score_options *o,
                int first, int n);
/* needs.lengths of a method that keeps so many of each lane, once opened: the
 * newest stays, so that whatever goes leaves a hole, whose positions are
 * charged. */
KV_FN bool kv_score_lengths(const kv_score_options *o, float threshold) {
  return threshold != threshold && (o->lag || o->w.window > 0);
}
/* The threshold of a method that has none. */
#define KV_NO_THRESHOLD kv_float(0x7fc00000u)
/* Does a lane of `entries` lose any to the budget, or to a threshold, which is
 * NaN where there is none? */
KV_FN bool kv_score_over(int entries, int budget, float threshold) {
  return entries > budget || threshold == threshold;
}
/* May an entry with that score stay, as far as the threshold goes? */
KV_FN bool kv_score_stays(float score, float threshold) {
  return !(score < threshold);
}
/* Does a compression at `step` tokens seen drop anything? With form=decode the
 * one after the prompt does not. */
KV_FN bool kv_score_compresses(const kv_score_options *o, const kv_shape *s,
                               int step) {
  return o->form != KV_FORM_DECODE || step > s->prompt_len;
}
/* At the end of a compression: zeroes the scorer's state, and observation
 * begins anew. */
void kv_score_forget(const kv_at *at, kv_lane *lane, const kv_score_options *o);
/* Of the entries that may go the best `past` stay, but those that the threshold
 * sends away; and all that are protected. */
void kv_score_keep(const kv_at *at, kv_lane *lane, int past, float threshold,
                   const kv_score_options *o);
/* A whole compression of a lane by its own scores, for compress_lane: where
 * kv_score_compresses, `budget` entries stay at most, the protected ones and
 * then the best, as kv_score_keep keeps. Forgets in any case. */
void kv_score_compress(const kv_at *at, kv_lane *lane, int budget,
                       float threshold, const kv_score_options *o);

/* --- methods that are a scorer -------------------------------------------- */

/* The parameters of all of them; the table of one has rows for those that it
 * offers, and the others are 0. */
typedef struct kv_scored {
  int budget; /* entries of a lane that stay */
  int skip;   /* first layers, which stay dense */
  int drop;   /* compress after the prompt and after every step? */
  int block;  /* prompt tokens that enter before a compression; KV_UNSET:
                 128, but 0, all at once, with form=decode */
  kv_score_options s; /* the scorer's options */
} kv_scored;

/* Its hooks, and what its open does. */
kv_rc kv_scored_open(const kv_shape *shape, const char *method, int score,
                     kv_scored *o, kv_needs *needs, kv_err *e);
void kv_scored_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows);
void kv_scored_compress(const kv_at *at, kv_lane *lane);

/* The method of scorer x: rows, its table of parameters; then title, paper and
 * revision, as fields of kv_method. */
#define KV_SCORER_METHOD(x, rows, ...)                                         \
  static kv_rc open_method(const kv_shape *shape, void *p, kv_needs *needs,    \
                           kv_err *e) {                                        \
    return kv_scored_open(shape, #x, KV_SCORE_##x, p, needs, e);               \
  }                                                                            \
  const kv_method kv_method_##x = {KV_METHOD_OF(rows, kv_scored, open_method), \
                                   .name = #x, .observe = kv_scored_observe,   \
                                   .compress_lane = kv_scored_compress,        \
                                   __VA_ARGS__}

#endif
