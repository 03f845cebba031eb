/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor as a backend for tests: it has the twin of the method of
 * tests/mad.h besides those of the registry, and counts the rows whose
 * probabilities its kernels are asked for.
 */
#ifndef KV_TESTS_PROBE_H
#define KV_TESTS_PROBE_H

#include "ref/backend.h"

/* NULL: the build has no executor. */
const kv_backend *probe_backend(void);
/* Query rows times heads, in the calling thread. */
int64_t probe_rows(void);

#endif
