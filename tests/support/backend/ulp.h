/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference with one kernel that is off by an ulp, for backends of tests:
 * Quest's bound of page ULP_PAGE is the next larger float in magnitude. That
 * changes scores, but seldom a choice.
 */
#ifndef KV_TESTS_ULP_H
#define KV_TESTS_ULP_H

#include "ref/backend/backend.h"

enum { ULP_PAGE = 3 };

/* In place of kv_backend_ref.open and .close. KV_RESOURCE: memory. */
kv_rc ulp_open(const kv_plan *plan, kv_store **out, kv_err *e);
void ulp_close(kv_store *s);

#endif
