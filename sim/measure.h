/* SPDX-License-Identifier: Apache-2.0
 *
 * The measures of fidelity: one table of names, titles and directions that
 * JSON rows, database, tables and page share. One value per (layer, query
 * head, decode step); binary64, arithmetic 10.
 */
#ifndef KV_SIM_MEASURE_H
#define KV_SIM_MEASURE_H

#include <stdint.h>

typedef enum kv_measure {
  KV_OUTPUT_ERROR,  /* |o^ - o|2 / |o|2 */
  KV_OUTPUT_ABS,    /* max |o^ - o| */
  KV_MASS,          /* exact probability on the view */
  KV_MASS_STORED,   /* ... on all stored tokens of weight 1 */
  KV_MASS_MERGED,   /* ... on members of merged entries in the view */
  KV_TV,            /* total variation of p and p^ over tokens */
  KV_KL,            /* KL(p^ || p), nats */
  KV_LSE_ERROR,     /* LSE(stored) - LSE(all) */
  KV_RECALL_1,      /* share of the exact top-1 in the view */
  KV_RECALL_16,     /* top-16 */
  KV_RECALL_B,      /* top-budget; null where there is no budget */
  KV_NEEDLE_STORED, /* rows that look for a needle only */
  KV_NEEDLE_MERGED,
  KV_NEEDLE_VIEW,
  KV_NEEDLE_MASS,
  KV_NEEDLE_ALL, /* per answer: all its tokens in the view */
  KV_MEASURES
} kv_measure;

typedef struct kv_measure_info {
  const char *name;  /* JSON key and SQL value */
  const char *title; /* for people */
  const char *unit;  /* "" where it is a share or a ratio */
  int better;        /* -1 smaller, +1 larger, 0 neither (closest to 0) */
} kv_measure_info;

extern const kv_measure_info kv_measure_table[KV_MEASURES];

/* Aggregate of finite values; count 0 means null. Percentiles by nearest
 * rank: the ceil(q * N)-th smallest. */
typedef struct kv_stat {
  int64_t count;
  double mean, p50, p95, p99, max;
} kv_stat;

/* values are reordered; NaN stands for null and is left out. The mean sums
 * in the order given. */
kv_stat kv_stat_of(double *value, int64_t n);

#endif
