/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor as a backend for tests: besides the methods of the registry it
 * has the twins of those of tests/made. It counts the query rows for which its
 * kernels compute probabilities, or logits of every entry.
 */
#ifndef KV_TESTS_PROBE_H
#define KV_TESTS_PROBE_H

#include "ref/backend/backend.h"

/* The backend, named emu; NULL: the build has no executor. */
const kv_backend *probe_backend(void);
/* Query rows times query heads since the program began, in the calling thread:
 * with probabilities (or sums of them); with logits of all entries. */
int64_t probe_rows(void);
int64_t probe_logit_rows(void);

#endif
