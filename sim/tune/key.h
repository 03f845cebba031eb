/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a row by name. The names are the keys of CSV rows, as kv_row_walk
 * gives them (sim/show/rows.h), so that there is one list: "bytes.mean",
 * "output_error.p95", "kr". Short ones stand for them: a measure alone for its
 * mean (output_error), bytes.end for its total, and mean_bytes or bytes_mean
 * for bytes.mean.
 */
#ifndef KV_SIM_TUNE_KEY_H
#define KV_SIM_TUNE_KEY_H

#include "ref/ground/err.h"
#include "sim/measure/result.h"

enum { KV_TUNE_KEY = 64 };

/* The key that a name stands for. KV_USAGE: there is none that is a number. */
kv_rc kv_tune_key_find(const char *name, char out[KV_TUNE_KEY], kv_err *e);
/* The number of a row under a key. False: the row has none there. */
bool kv_tune_key_value(const kv_result *r, const char *key, double *out);

#endif
