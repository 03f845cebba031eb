/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening: the checks and defaults that methods share, so that the same
 * contradiction gives the same sentence everywhere. Called by a method's
 * open only.
 */
#include "ref/parts/parts.h"

kv_rc kv_open_budget(const char *method, int budget, kv_err *e) {
  if (budget != KV_UNSET) return KV_OK;
  return kv_fail(e, KV_USAGE,
                 "%s needs a budget; write %s:budget=N or give one for all "
                 "methods with -b",
                 method, method);
}

kv_rc kv_open_part(const char *method, const char *name, int part, int budget,
                   kv_err *e) {
  if (part <= budget) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: %s=%d is more than the budget of %d; lower %s or raise "
                 "the budget",
                 method, name, part, budget, name);
}

kv_rc kv_open_kernel(const char *method, int kernel, kv_err *e) {
  if (kernel % 2) return KV_OK;
  return kv_fail(e, KV_USAGE, "%s: kernel=%d has no middle; use %d or %d",
                 method, kernel, kernel - 1, kernel + 1);
}

kv_rc kv_open_sums(const char *method, int rows, int heads, int kernel,
                   kv_err *e) {
  int64_t terms = (int64_t)rows * heads * kernel;
  if (terms <= KV_MOST_TERMS) return KV_OK;
  return kv_fail(e, KV_REFUSED,
                 "%s: a score would sum %lld probabilities (%d rows, %d heads, "
                 "kernel %d), at most %d are exact; replay a shorter trace or "
                 "select per query head",
                 method, (long long)terms, rows, heads, kernel, KV_MOST_TERMS);
}

/* The nearest binary32 of a decimal falls short of it by no more than its own
 * rounding, which is given back: 0.2 of 1000 tokens are 200. */
int kv_open_share(float share, int prompt_len) {
  double tokens = (double)share * prompt_len;
  int whole = (int)(tokens + tokens * 0x1p-24);
  return whole > 1 ? whole : 1;
}

int kv_score_heads(const kv_shape *s, kv_group_rule group) {
  return group == KV_GROUP_QUERY_HEAD ? 1 : kv_group(s);
}

kv_lanes kv_group_lanes(kv_group_rule group) {
  return group == KV_GROUP_QUERY_HEAD ? QUERY_HEAD : KV_HEAD;
}
