/* SPDX-License-Identifier: Apache-2.0
 *
 * Made-up results, the same every time, for tests of the database and of the
 * report: shaped like real ones, computed from nothing. Their traces are
 * called made_up_N so that nobody takes them for measurements.
 */
#ifndef KV_TESTS_ROWS_H
#define KV_TESTS_ROWS_H

#include "sim/db/environment.h"
#include "sim/measure/result.h"

enum { KV_ROWS_TRACES = 6, KV_ROWS_METHODS = 15, KV_ROWS_BUDGETS = 4 };

/* A row; kv_result_free. Methods without a budget give the same row at every
 * one. isa and threads say who confirms. */
kv_result kv_rows_make(int trace, int method, int budget, const char *isa,
                       int threads);
bool kv_rows_has_budget(int method);

/* An environment that names this machine nowhere. */
kv_environment kv_rows_environment(int number);

#endif
