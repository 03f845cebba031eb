/* SPDX-License-Identifier: Apache-2.0
 *
 * Scorers: a scorer gives a number to every entry of a lane that may be
 * dropped, so that the best stay. It says what it needs (query rows, state,
 * rotations, a file) and has one function that computes its scores. All scorers
 * share options: when a compression is due, which entries are protected, and
 * how positions are read. A method on top of a scorer decides how the budget is
 * spent: on the best of each lane, of a layer's lanes together, of chunks.
 *
 * A scorer is a table kv_scorer_x with a twin in gpu/parts. Only open may fail.
 * The file of its table defines it to the bit. A score that is not finite
 * counts as the least number, -FLT_MAX. A scorer that is also a method is in
 * ref/methods/x.c, with the row KV_SCORER_METHOD.
 */
#ifndef KV_REF_SCORERS_H
#define KV_REF_SCORERS_H

#include "ref/ground/arith.h"
#include "ref/parts/parts.h"
#include "ref/parts/scored.h" /* made from methods.mk */

/* The one list of scorers; KV_SCORE_x is the value of the parameter `score`.
 * KV_SCORED: the methods that methods.mk marks as scorers. */
#define KV_SCORERS(X) X(snapkv) X(h2o) KV_SCORED(X) X(tova) X(file)

#define KV_SCORER_NUMBER(x) KV_SCORE_##x,
#define KV_SCORER_NAME(x) "|" #x
enum { KV_SCORERS(KV_SCORER_NUMBER) KV_SCORES };
#define KV_SCORER_CHOICES (&(KV_SCORERS(KV_SCORER_NAME))[1])

/* Values of the parameters form and reindex (KV_FORM_PARAMS). */
enum { KV_FORM_PREFILL, KV_FORM_DECODE, KV_FORM_BOTH };
enum { KV_REINDEX_NO, KV_REINDEX_YES };
/* Values of `cross`, and of `covariance` and `vnorm`. 0 is the default in
 * methods without such a parameter. */
enum { KV_CROSS_NO, KV_CROSS_YES };
enum { KV_TERM_YES, KV_TERM_NO };

/* Options of methods on top of scorers, in their params. A method's table has
 * rows for those that it offers. Its open sets the others or leaves them 0; lag
 * and future then get the scorer's default. */
typedef struct kv_score_options {
  int score;             /* KV_SCORE_x */
  kv_window_options w;   /* window: last entries, always kept; kernel, pooling:
                            of votes; group */
  int sinks;             /* first entries, always kept */
  int form, every;       /* KV_FORM_x; decode steps between compressions */
  int reindex;           /* KV_REINDEX_x */
  int lag, cross;        /* lagkv: entries a partition, KV_CROSS_x; else 0 */
  int future;            /* expected: future positions that are averaged */
  int covariance, vnorm; /* expected: KV_TERM_x, use these terms? */
  float epsilon;         /* expected: added to a score before vnorm */
  kv_file file;          /* file: the scores */
  int tensor;   /* .. index of its first tensor in kv_at.asset: the number of
                   tensors of the files before it in the table */
  int rows;     /* resolved: last rows before a compression that the
                   scorer sees; 0: none */
  size_t state; /* resolved: bytes of the lane's state that it uses */
} kv_score_options;

typedef struct kv_scorer {
  const char *name;
  /* Resolves the options against a lane's budget in entries and fills in needs,
   * o->rows and o->state, which are 0 before. KV_USAGE: an even kernel.
   * KV_REFUSED: contradictory options, or a score whose sum is not exact. */
  kv_rc (*open)(const kv_shape *shape, const char *method, int budget,
                kv_score_options *o, kv_needs *needs, kv_err *e);
  /* Adds rows to its state; NULL: it uses none. */
  void (*observe)(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                  const kv_score_options *o);
  /* out[i] is the score of entry first + i, i < n; n >= 1. */
  void (*score)(const kv_at *at, const kv_lane *lane, const kv_score_options *o,
                int first, int n, float *out);
  bool by_entry; /* its state holds numbers of each token */
  bool lengths;  /* its method has needs.lengths, whatever the options */
} kv_scorer;

#define KV_SCORER_TABLE(x) extern const kv_scorer kv_scorer_##x;
KV_SCORERS(KV_SCORER_TABLE)

/* --- parameters ----------------------------------------------------------- */

/* Rows of a parameter table. `member` is the kv_score_options in the params
 * struct `type`. */
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

extern const kv_asset_kind kv_scores_kind; /* files for score=file */
/* The score of a token that the file does not cover. */
#define KV_UNSCORED 0x1p100f
/* The score of token id for a KV head; t is the tensor of a file of scores. */
KV_FN float kv_score_of(const kv_tensor *t, int kv_head, uint32_t id) {
  int64_t n = t->dim[1];
  return id < n ? ((const float *)t->data)[kv_head * n + id] : KV_UNSCORED;
}

/* A score as it ranks: the least number if it is not finite. */
KV_FN float kv_score_finite(float x) {
  return kv_finite(x) ? x : kv_float(0xff7fffffu);
}

/* --- what methods on top of a scorer call --------------------------------- */

/* In open: resolves the options against a lane's budget in entries and fills in
 * what the scorer and the options need. KV_USAGE: no budget, or an even kernel.
 * KV_REFUSED: contradictory options, or sums that are not exact. */
kv_rc kv_score_open(const kv_shape *shape, const char *method, int budget,
                    kv_score_options *o, kv_needs *needs, kv_err *e);
/* KV_REFUSED: a file of scores is named but another scorer chosen.
 * kv_score_open calls it, too. */
kv_rc kv_score_unread(const char *method, const kv_score_options *o, kv_err *e);
/* The hook observe: passes the scorer the rows of the prompt, and, of decode
 * steps, the last o->rows before a compression. */
void kv_score_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows,
                      const kv_score_options *o);
/* In a lane of `entries`, entries [*first, *first + n) may be dropped. Returns
 * n; 0 or less: all are protected. */
KV_FN int kv_score_span(const kv_score_options *o, int entries, int *first) {
  int past = entries - o->sinks;
  *first = o->sinks;
  return past - (o->lag ? o->lag + past % o->lag : o->w.window);
}
/* How many of these a lane's budget leaves, after the protected ones. */
KV_FN int kv_score_past(const kv_score_options *o, int entries, int budget) {
  int first;
  return budget - (entries - kv_score_span(o, entries, &first));
}
/* [n] scores of these, in the hook's workspace; n >= 1. */
float *kv_score(const kv_at *at, const kv_lane *lane, const kv_score_options *o,
                int first, int n);
/* needs.lengths of a method that keeps a fixed number of each lane, after open.
 * The newest entry stays, so that every drop leaves a hole and positions are
 * charged. */
KV_FN bool kv_score_lengths(const kv_score_options *o, float threshold) {
  return threshold != threshold && (o->lag || o->w.window > 0);
}
/* The threshold of a method without one. */
#define KV_NO_THRESHOLD kv_float(0x7fc00000u)
/* Can a lane of `entries` lose any? threshold: NaN if there is none. */
KV_FN bool kv_score_over(int entries, int budget, float threshold) {
  return entries > budget || threshold == threshold;
}
/* Does the threshold let an entry with that score stay? */
KV_FN bool kv_score_stays(float score, float threshold) {
  return !(score < threshold);
}
/* Does a compression at `step` tokens seen drop anything? With form=decode the
 * compression after the prompt does not. */
KV_FN bool kv_score_compresses(const kv_score_options *o, const kv_shape *s,
                               int step) {
  return o->form != KV_FORM_DECODE || step > s->prompt_len;
}
/* At the end of a compression: zeroes the scorer's state; it starts again. */
void kv_score_forget(const kv_at *at, kv_lane *lane, const kv_score_options *o);
/* Keeps all protected entries, and, of those that may be dropped, the best
 * `past` that the threshold lets stay. */
void kv_score_keep(const kv_at *at, kv_lane *lane, int past, float threshold,
                   const kv_score_options *o);
/* A whole compression of a lane by its own scores, for compress_lane. If
 * kv_score_compresses, keeps at most `budget` entries: the protected ones, then
 * the best, as kv_score_keep does. Forgets in any case. */
void kv_score_compress(const kv_at *at, kv_lane *lane, int budget,
                       float threshold, const kv_score_options *o);

/* --- methods that are a scorer -------------------------------------------- */

/* The parameters of all of them. A table has rows for those that its method
 * offers; the others are 0. */
typedef struct kv_scored {
  int budget; /* entries kept in a lane */
  int skip;   /* first layers, which stay dense */
  int drop;   /* compress after the prompt and after every step? */
  int block;  /* prompt tokens that enter before a compression; KV_UNSET: 128,
                 but with form=decode 0, all at once */
  kv_score_options s; /* the scorer's options */
} kv_scored;

/* Their open and their hooks. */
kv_rc kv_scored_open(const kv_shape *shape, const char *method, int score,
                     kv_scored *o, kv_needs *needs, kv_err *e);
void kv_scored_observe(const kv_at *at, kv_lane *lane, const kv_rows *rows);
void kv_scored_compress(const kv_at *at, kv_lane *lane);

/* Defines the method of scorer x. rows: its table of parameters; then title,
 * paper and revision, as fields of kv_method. */
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
