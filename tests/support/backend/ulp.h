/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference with one kernel an ulp off, for backends of tests: the bound
 * of Quest's page ULP_PAGE is the next float. That seldom changes a choice.
 */
#ifndef KV_TESTS_ULP_H
#define KV_TESTS_ULP_H

#include "ref/backend/backend.h"

enum { ULP_PAGE = 3 };

/* kv_backend_ref.open and .close, with that kernel. */
kv_rc ulp_open(const kv_plan *plan, kv_store **out, kv_err *e);
void ulp_close(kv_store *s);

#endif
