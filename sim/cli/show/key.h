/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a row by name. The names are the keys of CSV rows, as kv_row_walk
 * gives them (sim/cli/show/rows.h), so that there is one list: "bytes.mean",
 * "output_error.p95", "kr". Short forms: a measure alone means its mean
 * (output_error), bytes.end its total, and mean_bytes or bytes_mean means
 * bytes.mean.
 */
#ifndef KV_SIM_TUNE_KEY_H
#define KV_SIM_TUNE_KEY_H

#include "ref/ground/err.h"
#include "sim/replay/measure/result.h"

enum { KV_TUNE_KEY = 64 }; /* bytes of a key, NUL included */

/* Writes the key that a name means. KV_USAGE: no number of a row has it; the
 * message suggests one. KV_RESOURCE: memory. */
kv_rc kv_tune_key_find(const char *name, char out[KV_TUNE_KEY], kv_err *e);
/* *out: the number of a result under a key. False: it has none, for example
 * because the cell did not run. Walks over the whole row. */
bool kv_tune_key_value(const kv_result *r, const char *key, double *out);

#endif
