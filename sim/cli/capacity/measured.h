/* SPDX-License-Identifier: Apache-2.0
 *
 * What requests would hold if data decides, estimated from the rows of a
 * database, one for each trace that the method ran on with this budget. A row's
 * bytes held and read, as a share of dense, are applied to the model's length
 * and shape. The shares of several traces are a distribution;
 * sim/python/kvreplay/capacity/rows.py shows its middle and range.
 */
#ifndef KV_SIM_CAPACITY_MEASURED_H
#define KV_SIM_CAPACITY_MEASURED_H

#include "sim/cli/capacity/lengths.h"

/* Adds the estimate from each matching row of the database at `path` for the
 * request `ask` (context, output, model, spec, budget, tp): *out [*n],
 * ascending by bytes held; free() it. A row matches if it ran, is of the
 * method, has all parameters that the specification sets, by default or as
 * typed, and ran with the budget or with as many entries as the budget means
 * for it. A budget in entries is no share of dense, so it matches only rows
 * whose prompts differ by at most a tenth from the request's.
 *
 *   steady   (mean of bytes held / dense over the row's steps) x dense at the
 *            request's end
 *   peak     (bytes held / dense after the row's prompt) x dense of the
 *            request's prompt; plus the row's highest bytes beyond these, as a
 *            share of one layer's dense prompt, at most 1, x dense of one
 *            layer of the request's prompt; at least steady
 *   read     (bytes read and scanned / dense read) x dense that the mean step
 *            of the request reads
 *   fullest  entries at the end of the row's KV heads, divided among tp ranks,
 *            or among as many as divide its heads evenly
 *
 * Fails as kv_db_open_found and kv_db_next do (sim/store/db.h). */
kv_rc kv_measured_read(const char *path, const kv_lengths *ask, int *n,
                       kv_stored **out, kv_err *e);

#endif
