/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cli/show/unequal.h"

#include <stdio.h>
#include <string.h>

/* As in `kvreport compare`: more than a tenth of the larger. */
#define APART 0.1

/* True for a row with the budget of `asked`, or of a method without a budget,
 * if its share of dense's bytes is known. */
static bool counts(const kv_result *r, const kv_result *asked) {
  bool fixed = r->basis == KV_BASIS_NONE;
  return kv_result_ran(r) && r->totals.kr > 0 && strcmp(r->method, "dense") &&
         (fixed || !strcmp(r->target, asked->target));
}

/* A budget that means the same in bytes: the share of the prompt that was
 * requested, else what the first row holds. */
static void fair(const kv_result *asked, char out[80]) {
  const char *colon = strchr(asked->target, ':');
  const char *number = colon ? colon + 1 : asked->target;
  if (asked->basis == KV_BASIS_PROMPT)
    snprintf(out, 80, "mean:%.60s", number);
  else
    snprintf(out, 80, "mean:%.0f%%",
             asked->totals.kr > 0.01 ? 100 * asked->totals.kr : 1);
}

static bool find_at(int n, const kv_result *const *r, const kv_result *asked,
                    char *line) {
  const kv_result *least = NULL, *most = NULL;
  char budget[80];
  for (int i = 0; i < n; i++) {
    if (!counts(r[i], asked)) continue;
    if (!least || r[i]->totals.kr < least->totals.kr) least = r[i];
    if (!most || r[i]->totals.kr > most->totals.kr) most = r[i];
  }
  if (!least || most->totals.kr - least->totals.kr <= APART * most->totals.kr)
    return false;
  fair(asked, budget);
  snprintf(line, KV_UNEQUAL_LINE,
           "bytes differ%s%.60s: %.60s holds %.3g %% of dense's, %.60s %.3g "
           "%%; -b %s compares methods at equal bytes",
           asked->target[0] ? " at " : "", asked->target, least->method,
           100 * least->totals.kr, most->method, 100 * most->totals.kr, budget);
  return true;
}

bool kv_unequal_find(int n, const kv_result *const *r, char *line) {
  for (int i = 0; i < n; i++) {
    bool bytes = r[i]->basis >= KV_BASIS_END, fixed = !r[i]->target[0];
    if (bytes || !kv_result_ran(r[i])) continue;
    bool budgets = false;
    for (int j = 0; j < n && fixed; j++) budgets |= r[j]->target[0] != 0;
    if (fixed && budgets) continue; /* compared with the rows of each budget */
    if (find_at(n, r, r[i], line)) return true;
  }
  return false;
}
