/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods, budgets and backends of a command line: sim/options_cells.h.
 */
#include "sim/options_cells.h"

#include "gpu/backends.h"
#include "traces/text.h"
#include <string.h>

static kv_rc check_budgets(const kv_specs *specs, kv_err *e) {
  for (int i = 0; i < specs->n; i++) {
    if (!kv_spec_wants_budget(&specs->spec[i])) continue;
    const char *name = specs->spec[i].method->name;
    return kv_fail(e, KV_USAGE, "%s needs a budget: -b 20%% or %s:budget=512",
                   name, name);
  }
  return KV_OK;
}

kv_rc kv_cells_options_read(kv_registry *registry, kv_cells_options *o,
                            kv_err *e) {
  kv_rc rc = KV_OK;
  if (o->method_text.n == 0) {
    return kv_fail(e, KV_USAGE,
                   "no method: -m all runs every one, `kvreplay "
                   "methods` lists them");
  }
  for (int i = 0; i < o->method_text.n && rc == KV_OK; i++) {
    rc = kv_specs_add(registry, o->method_text.item[i], &o->specs, e);
  }
  for (int i = 0; i < o->budget_text.n && rc == KV_OK; i++) {
    rc = kv_budgets_add(o->budget_text.item[i], &o->budgets, e);
  }
  if (rc == KV_OK && o->budgets.n == 0) rc = check_budgets(&o->specs, e);
  return rc;
}

void kv_cells_options_free(kv_cells_options *o) {
  kv_list_free(&o->traces);
  kv_list_free(&o->method_text);
  kv_list_free(&o->budget_text);
  kv_specs_free(&o->specs);
  kv_budgets_free(&o->budgets);
}

kv_rc kv_cells_options_backend(size_t n, const char *name,
                               const kv_backend **out, kv_err *e) {
  char copy[64], show[KV_SHOW];
  if (n >= sizeof copy) n = sizeof copy - 1;
  memcpy(copy, name, n);
  copy[n] = 0;
  *out = kv_backend_find(kv_show(copy, show), e);
  return *out ? KV_OK : e->rc;
}
