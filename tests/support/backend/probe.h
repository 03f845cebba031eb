/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor as a backend for tests: it has the twins of the methods of
 * tests/made/counts.h, tests/made/mad.h and tests/made/whim.h besides
 * those of the registry, and counts the rows whose probabilities, and whose
 * logits of every entry, its kernels are asked for.
 */
#ifndef KV_TESTS_PROBE_H
#define KV_TESTS_PROBE_H

#include "ref/backend/backend.h"

/* NULL: the build has no executor. */
const kv_backend *probe_backend(void);
/* Query rows times heads, in the calling thread. */
int64_t probe_rows(void);
int64_t probe_logit_rows(void);

#endif
