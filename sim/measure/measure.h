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

typedef enum kv_measure {
  KV_OUTPUT_ERROR, /* |o^ - o|2 / |o|2 */
  KV_OUTPUT_ABS,   /* max |o^ - o| */
  KV_MASS,         /* exact probability on the view */
  KV_MASS_STORED,  /* ... on all stored tokens of weight 1 */
  KV_MASS_MERGED,  /* ... on members of merged entries in the view */
  KV_TV,           /* total variation of p and p^ over tokens */
  KV_KL,           /* KL(p^ || p), nats */
  KV_LSE_ERROR,    /* LSE(stored) - LSE(all) */
  KV_RECALL_1,     /* share of the exact top-1 in the view */
  KV_RECALL_16,    /* top-16 */
  KV_RECALL_B,     /* top-budget; null where there is no budget */
  /* Only of rows that look for a needle, a token that the answer repeats: */
  KV_NEEDLE_STORED, /* 1 if it is stored by itself, else 0 */
  KV_NEEDLE_MERGED, /* 1 if it is stored as a part of a merged entry */
  KV_NEEDLE_VIEW,   /* 1 if the view held it */
  KV_NEEDLE_MASS,   /* its p^ */
  KV_NEEDLE_ALL,    /* per answer: 1 if the view held all its tokens */
  KV_NEEDLE_DENSE,  /* exact probability of the needle in the same rows */
  /* Of rows of the prompt behind its first chunk, where it is read in chunks:
   */
  KV_PROMPT_ERROR,    /* as KV_OUTPUT_ERROR */
  KV_PROMPT_MASS,     /* as KV_MASS */
  KV_PROMPT_ATTENDED, /* entries in the view / tokens that the row sees */
  KV_MEASURES
} kv_measure;

/* Has it values at decode steps? The others are of the prompt's rows. */
static inline bool kv_measure_of_steps(int m) { return m < KV_PROMPT_ERROR; }

typedef struct kv_measure_info {
  const char *name;  /* JSON key and SQL value */
  const char *title; /* heading for people */
  const char *unit;  /* "" where it is a share or a ratio */
  int better;        /* -1 smaller, +1 larger, 0 neither */
} kv_measure_info;

extern const kv_measure_info kv_measure_table[KV_MEASURES]; /* by kv_measure */

/* Aggregate of values that are not NaN; count 0 means null, and the rest is 0.
 * Percentiles by nearest rank: the ceil(q * count)-th smallest. */
typedef struct kv_stat {
  int64_t count;
  double mean, p50, p95, p99, max;
  double squares; /* sum of (value - mean)^2: over count - 1 it is the sample
                     variance. NaN: not recorded */
} kv_stat;

/* Statistics of n values. NaN stands for null and is left out. The mean adds in
 * the order given, and so do the squares about it, one chain each; afterwards
 * value[] is reordered. */
kv_stat kv_stat_of(double *value, int64_t n);

/* The same, to the bit but that a percentile of -0 is 0, of more values than
 * memory should hold: whoever has them gives them in the same order once a
 * pass.
 *   kv_tally_begin(t);
 *   while (kv_tally_pass(t)) for (each x) kv_tally_add(t, x);
 *   t->stat is what kv_stat_of gives.
 * Percentiles are found by counting 16 bits of the values a pass, from the
 * top. Memory: 1.5 MiB, whatever the number of values; five passes. */
enum { KV_TALLY_RANKS = 3, KV_TALLY_DIGITS = 1 << 16 };
typedef struct kv_tally {
  kv_stat stat; /* the result, after the last pass */
  int pass;     /* the one in hand, from 0; -1: none has begun */
  double sum;   /* of pass 0 */
  /* Of p50, p95 and p99: */
  int64_t rank[KV_TALLY_RANKS];    /* place among values of the same prefix */
  uint64_t prefix[KV_TALLY_RANKS]; /* upper bits that are known */
  int64_t at[KV_TALLY_RANKS][KV_TALLY_DIGITS]; /* values by their next bits */
} kv_tally;
void kv_tally_begin(kv_tally *t);
bool kv_tally_pass(kv_tally *t);          /* false: that was the last pass */
void kv_tally_add(kv_tally *t, double x); /* NaN is left out */

/* needle_mass relative to needle_dense: the share of the exact attention on the
 * needles that the method leaves on them. A quotient of the two means, so that
 * rows that hardly look for their needle do not dominate it. 1 for dense; above
 * 1 if the method draws attention to the needle. NaN if one of the two was not
 * measured or dense puts nothing on it. s: [KV_MEASURES]. */
double kv_needle_share(const kv_stat *s);

#endif
