/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up results, the same every time, for tests of the database and of the
 * report: fields from formulas, within realistic ranges. Their traces are
 * called made_up_N, so that nobody mistakes them for measurements.
 */
#ifndef KV_TESTS_ROWS_H
#define KV_TESTS_ROWS_H

#include "sim/replay/measure/result.h"
#include "sim/store/environment.h"

/* How many there are; the functions count them, and traces, from 0. */
enum { KV_ROWS_METHODS = 15, KV_ROWS_BUDGETS = 4 };

/* A result; for kv_result_free. A method without a budget gives the same one at
 * every budget. isa (kernel set) and threads are those of its confirmation. */
kv_result kv_rows_make(int trace, int method, int budget, const char *isa,
                       int threads);
/* Does a method have a budget? */
bool kv_rows_has_budget(int method);

/* The number-th made-up environment (machine, versions), independent of this
 * machine. */
kv_environment kv_rows_environment(int number);

#endif
