/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands that open cells share: methods and budgets as typed, and what
 * they mean.
 */
#ifndef KV_SIM_OPTIONS_CELLS_H
#define KV_SIM_OPTIONS_CELLS_H

#include "sim/budget.h"
#include "sim/option.h"
#include "sim/spec.h"

/* KV_USAGE also where no method is named, or one that needs a budget has
 * none. specs and budgets are to be freed also after a failure. */
kv_rc kv_options_cells(kv_registry *registry, const kv_list *methods,
                       const kv_list *budgets, kv_specs *specs, kv_budgets *out,
                       kv_err *e);

#endif
