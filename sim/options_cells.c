/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods and budgets of a command line: sim/options_cells.h.
 */
#include "sim/options_cells.h"

static kv_rc check_budgets(const kv_specs *specs, kv_err *e) {
  for (int i = 0; i < specs->n; i++) {
    if (!kv_spec_wants_budget(&specs->spec[i])) continue;
    const char *name = specs->spec[i].method->name;
    return kv_fail(e, KV_USAGE, "%s needs a budget: -b 20%% or %s:budget=512",
                   name, name);
  }
  return KV_OK;
}

kv_rc kv_options_cells(kv_registry *registry, const kv_list *methods,
                       const kv_list *budgets, kv_specs *specs, kv_budgets *out,
                       kv_err *e) {
  kv_rc rc = KV_OK;
  if (methods->n == 0) {
    return kv_fail(e, KV_USAGE,
                   "no method: -m all runs every one, `kvreplay "
                   "methods` lists them");
  }
  for (int i = 0; i < methods->n && rc == KV_OK; i++) {
    rc = kv_specs_add(registry, methods->item[i], specs, e);
  }
  for (int i = 0; i < budgets->n && rc == KV_OK; i++) {
    rc = kv_budgets_add(budgets->item[i], out, e);
  }
  if (rc == KV_OK && out->n == 0) rc = check_budgets(specs, e);
  return rc;
}
