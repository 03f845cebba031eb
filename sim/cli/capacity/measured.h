/* SPDX-License-Identifier: Apache-2.0
 *
 * What requests would hold where data decides: from the rows of a database, one
 * for each trace that the method was run on with this budget. What a row holds
 * and reads as a share of dense is taken to the model's length and shape; the
 * shares of traces are a distribution, of which sim/cli/capacity/rows.h shows
 * the middle and the range.
 */
#ifndef KV_SIM_CAPACITY_MEASURED_H
#define KV_SIM_CAPACITY_MEASURED_H

#include "sim/cli/capacity/lengths.h"

/* Adds what each matching row of the database at `path` comes to for the
 * request `ask` (context, output, model, spec, budget, tp): *out, for free(),
 * with *n elements, in the order of bytes held, ascending. A row matches if it
 * ran, is of the method, has all parameters that the specification sets, by
 * default or as typed, and was asked for with the budget or has as many entries
 * as the budget means for it. A budget in entries is no share of dense: then
 * only rows match whose prompts are within a tenth as long as the request's.
 *
 *   steady   (mean of bytes held / dense over the row's steps) x dense at the
 *            request's end
 *   peak     what was held after the prompt, as a share of dense, of the
 *            request's prompt; with it what the row held beyond that at most,
 * as a share of one layer's dense prompt and at most all of it, of one layer's;
 * steady where that is more read     (bytes read and scanned / dense read) x
 * dense that the mean step of the request reads fullest  entries at the end of
 * the row's KV heads, dealt out to tp ranks, or to as many as its heads can be
 * dealt out to evenly
 *
 * Fails as kv_db_open_found and kv_db_next do (sim/store/db.h). */
kv_rc kv_measured_read(const char *path, const kv_lengths *ask, int *n,
                       kv_stored **out, kv_err *e);

#endif
