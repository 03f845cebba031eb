/* SPDX-License-Identifier: Apache-2.0
 *
 * Budgets: what stands behind -b, and the search for the number of entries
 * that meets a budget in bytes. Percentages are exact: the decimal that was
 * typed, as a ratio of integers; no float takes part.
 *
 *   budget = [basis ":"] number      basis = entries
 *          | [basis ":"] number "%"  basis = prompt end mean peak read
 */
#ifndef KV_SIM_BUDGET_H
#define KV_SIM_BUDGET_H

#include "ref/err.h"
#include "sim/result.h"

typedef struct kv_budget {
  kv_basis basis;
  int entries;      /* KV_BASIS_ENTRIES */
  int64_t num, den; /* the others: share = num / den, den a power of 10 */
  char target[64];  /* as typed */
} kv_budget;

typedef struct kv_budgets {
  int n;
  kv_budget *budget;
} kv_budgets;

kv_rc kv_budget_parse(const char *text, kv_budget *out, kv_err *e);
/* Adds a comma list; the same budget twice is an error. On failure out keeps
 * what it had. */
kv_rc kv_budgets_add(const char *list, kv_budgets *out, kv_err *e);
void kv_budgets_free(kv_budgets *b);

/* Is the budget an amount of bytes, to be searched for? */
bool kv_budget_in_bytes(const kv_budget *b);
/* The number of entries of the two other bases: floor for prompt; less than
 * 1 is KV_USAGE. */
kv_rc kv_budget_entries(const kv_budget *b, int prompt_len, int *out,
                        kv_err *e);
/* Is bytes / dense <= the share? Exact. Sums over the same steps serve as
 * well as means. */
bool kv_budget_fits(const kv_budget *b, int64_t bytes, int64_t dense);

/* What a method with `entries` costs in the budget's basis, and dense. */
typedef kv_rc kv_probe(void *self, int entries, int64_t *bytes, int64_t *dense,
                       kv_err *e);

/* The largest B that bisection between the method's least legal budget and
 * `most` (the trace's length) finds to fit; `most` where that fits, and the
 * least where it is not below most. KV_REFUSED, naming the bytes, where the
 * least does not fit. */
kv_rc kv_budget_search(const kv_budget *b, int least, int most, kv_probe *probe,
                       void *self, int *out, kv_err *e);
/* The most probes that takes: most, least, then one a halving. */
int kv_budget_probes(int least, int most);

#endif
