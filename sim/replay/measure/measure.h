/* SPDX-License-Identifier: Apache-2.0
 *
 * The measures of fidelity: one table of names, titles and directions that JSON
 * rows, database, tables and page share, and the statistics of many values.
 * Each measure has at most one value per (layer, query head, decode step), or
 * row of the prompt, in binary64 (arithmetic 10). o and p: output and
 * probabilities of exact attention over the whole cache; o^ and p^: of the
 * compressed one; LSE: log-sum-exp of logits. Nothing here fails or allocates.
 */
#ifndef KV_SIM_MEASURE_H
#define KV_SIM_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

/* What a measure has values for. */
typedef enum kv_measured {
  KV_OF_STEPS,    /* decode steps */
  KV_OF_SEARCHES, /* decode steps that look for a needle, a token that the
                     answer repeats */
  KV_OF_PROMPT    /* rows of a prompt in chunks, after its first chunk */
} kv_measured;

/* The one list of measures. The enum and table here, and kvreport's columns,
 * comparisons and ranks (analysis/measures.h) are made from it. A row:
 *   X(NAME, name, of, better, unit, columns, title, phrase)
 * name: JSON key and SQL value. of: a kv_measured. better: MORE, LESS, SIZE
 * (less of its absolute value) or NEITHER. unit: "" for a share or a ratio.
 * columns: its statistics in the view `cell`; se: standard error of the mean.
 * title: heading for people. phrase: what `kvreport compare` calls it; "": it
 * does not compare by it. A row D is derived in SQL by analysis/sql/views.sql
 * and is not stored in a kv_result. Add a new row X at the end: values are
 * stored in this order. */
#define KV_MEASURES_EACH(X, D)                                                 \
  /* |o^ - o|2 / |o|2 */                                                       \
  X(OUTPUT_ERROR, output_error, STEPS, LESS, "", "mean se p50 p95 p99 max",    \
    "relative output error", "relative error of the output")                   \
  /* max |o^ - o| */                                                           \
  X(OUTPUT_ABS, output_abs, STEPS, LESS, "", "max", "largest output error",    \
    "")                                                                        \
  /* exact probability on the view */                                          \
  X(MASS, mass, STEPS, MORE, "", "mean se", "exact mass of the view",          \
    "attention mass that is left")                                             \
  /* ... on all stored tokens of weight 1 */                                   \
  X(MASS_STORED, mass_stored, STEPS, MORE, "", "mean",                         \
    "exact mass of what is stored", "")                                        \
  /* ... on members of merged entries in the view */                           \
  X(MASS_MERGED, mass_merged, STEPS, NEITHER, "", "mean",                      \
    "exact mass of merged tokens", "")                                         \
  /* total variation of p and p^ over tokens */                                \
  X(TV, tv, STEPS, LESS, "", "mean", "total variation",                        \
    "total variation of the attention")                                        \
  /* KL(p^ || p) */                                                            \
  X(KL, kl, STEPS, LESS, "nats", "mean se", "KL of compressed from exact",     \
    "KL divergence of the attention, nats")                                    \
  /* LSE(stored) - LSE(all) */                                                 \
  X(LSE_ERROR, lse_error, STEPS, SIZE, "nats", "mean se", "log-sum-exp drift", \
    "size of the LSE error, nats")                                             \
  /* sim/replay/measure/README.md */                                           \
  D(LSE_DRIFT, lse_drift, STEPS, SIZE, "nats", "mean",                         \
    "lse_error, summed over steps", "")                                        \
  /* share of the exact top-1 in the view */                                   \
  X(RECALL_1, recall_1, STEPS, MORE, "", "mean", "top-1 recall",               \
    "rows whose heaviest token is seen")                                       \
  /* top-16 */                                                                 \
  X(RECALL_16, recall_16, STEPS, MORE, "", "mean se", "top-16 recall",         \
    "share of the 16 heaviest tokens")                                         \
  /* top-budget; null where there is no budget */                              \
  X(RECALL_B, recall_budget, STEPS, MORE, "", "mean", "top-budget recall", "") \
  /* 1 if it is stored by itself, else 0 */                                    \
  X(NEEDLE_STORED, needle_stored, SEARCHES, MORE, "", "mean", "needle stored", \
    "")                                                                        \
  /* 1 if it is stored as a part of a merged entry */                          \
  X(NEEDLE_MERGED, needle_merged, SEARCHES, NEITHER, "", "mean",               \
    "needle merged", "")                                                       \
  /* 1 if the view held it */                                                  \
  X(NEEDLE_VIEW, needle_view, SEARCHES, MORE, "", "mean",                      \
    "needle in the view", "")                                                  \
  /* its p^ */                                                                 \
  X(NEEDLE_MASS, needle_mass, SEARCHES, MORE, "", "mean",                      \
    "mass on the needle", "")                                                  \
  /* per answer: 1 if the view held all its tokens */                          \
  X(NEEDLE_ALL, needle_all, SEARCHES, MORE, "", "mean",                        \
    "whole answers in the view", "")                                           \
  /* exact probability of the needle in the same rows */                       \
  X(NEEDLE_DENSE, needle_dense, SEARCHES, NEITHER, "", "mean",                 \
    "exact mass on the needle", "")                                            \
  /* needle_mass over needle_dense: kv_needle_share */                         \
  D(NEEDLE_SHARE, needle_share, SEARCHES, MORE, "", "mean se",                 \
    "mass on the needle, dense is 1", "")                                      \
  /* as output_error */                                                        \
  X(PROMPT_ERROR, prompt_error, PROMPT, LESS, "", "mean",                      \
    "output error of the prompt's rows", "")                                   \
  /* as mass */                                                                \
  X(PROMPT_MASS, prompt_mass, PROMPT, MORE, "", "mean",                        \
    "exact mass of their views", "")                                           \
  /* entries in the view / tokens that the row sees */                         \
  X(PROMPT_ATTENDED, prompt_attended, PROMPT, NEITHER, "", "mean",             \
    "share that they attended", "")

#define KV_MEASURE_ID(NAME, ...) KV_##NAME,
#define KV_MEASURE_NONE(...)
typedef enum kv_measure {
  KV_MEASURES_EACH(KV_MEASURE_ID, KV_MEASURE_NONE) KV_MEASURES
} kv_measure;

typedef struct kv_measure_info {
  const char *name;  /* JSON key and SQL value */
  const char *title; /* heading for people */
  const char *unit;  /* "" for a share or a ratio */
  int better;        /* -1 smaller, +1 larger, 0 neither, or its size */
  kv_measured of;
} kv_measure_info;

extern const kv_measure_info kv_measure_table[KV_MEASURES]; /* by kv_measure */

/* Does it have values at decode steps? The others have them for prompt rows. */
static inline bool kv_measure_of_steps(int m) {
  return kv_measure_table[m].of != KV_OF_PROMPT;
}

/* Aggregate of the values that are not NaN. count 0 means null; the rest is
 * then 0. Percentiles by nearest rank: the ceil(q * count)-th smallest. */
typedef struct kv_stat {
  int64_t count;
  double mean, p50, p95, p99, max;
  double squares; /* sum of (value - mean)^2: over count - 1 it is the sample
                     variance. NaN: not recorded */
} kv_stat;

/* Statistics of n values. NaN (null) is left out. The mean, and the squares
 * about it, are one chain each in the order given. Reorders value[]. */
kv_stat kv_stat_of(double *value, int64_t n);

/* The same, to the bit (except that a percentile of -0 is 0), for more values
 * than memory should hold. The caller passes them once a pass, always in the
 * same order:
 *   kv_tally_begin(t);
 *   while (kv_tally_pass(t)) for (each x) kv_tally_add(t, x);
 *   t->stat is the result.
 * Percentiles are found by counting 16 bits of the values a pass, from the top.
 * Memory: 1.5 MiB, whatever the number of values; five passes. */
enum { KV_TALLY_RANKS = 3, KV_TALLY_DIGITS = 1 << 16 };
typedef struct kv_tally {
  kv_stat stat; /* the result, after the last pass */
  int pass;     /* the current one, from 0; -1: none has begun */
  double sum;   /* of pass 0 */
  /* For p50, p95 and p99: */
  int64_t rank[KV_TALLY_RANKS];    /* rank among values of the same prefix */
  uint64_t prefix[KV_TALLY_RANKS]; /* upper bits that are known */
  int64_t at[KV_TALLY_RANKS][KV_TALLY_DIGITS]; /* values by their next bits */
} kv_tally;
void kv_tally_begin(kv_tally *t);
bool kv_tally_pass(kv_tally *t);          /* false: that was the last pass */
void kv_tally_add(kv_tally *t, double x); /* NaN is left out */

/* needle_mass relative to needle_dense: the share of the exact attention on the
 * needles that the method leaves there. A quotient of the two means, so that
 * rows that hardly look for their needle do not dominate. 1 for dense; above 1
 * if the method draws attention to the needle. NaN if either was not measured
 * or dense puts nothing on it. s: [KV_MEASURES]. */
double kv_needle_share(const kv_stat *s);

/* What a KV head of a layer keeps of the needles, summed over the rows that
 * look for one and its query heads. dense: needle_dense, dense's mass on the
 * needle. kept: the part of that mass whose token is stored and in the view:
 *   - a coded entry counts whole, however coarse: its token is there to be read
 *     (what the code does to it shows in needle_mass);
 *   - a member of a merged entry counts 0, as in needle_view and mass: what can
 *     be read is a mean of several tokens (needle_merged counts these).
 * Unlike needle_mass, nothing is renormalised: what is dropped gives its mass
 * to nobody. So a method that keeps tokens at random keeps about the share of
 * the needle that it keeps of all tokens. */
typedef struct kv_kept {
  double kept, dense;
  int lane; /* its number: layers, then KV heads, ascending */
} kv_kept;

/* Sum of kept over sum of dense, for lane[n], in the given order. NaN if dense
 * puts nothing on the needles. */
double kv_kept_share(int n, const kv_kept *lane);

/* The same over the worst tenth: the lanes with the smallest shares that
 * together hold a tenth of all dense mass, the last one in part. Lanes count by
 * dense's mass, since a head that never looks for the needle may drop it: with
 * equal weights even the best choice of tokens has a worst tenth near 0. Of
 * equal shares the smaller number goes first. Sorts lane[n]. */
double kv_kept_worst(int n, kv_kept *lane);

#endif
