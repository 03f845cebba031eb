/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/probe.h"

#include <stddef.h>

const kv_backend *probe_backend(void) { return NULL; }
int64_t probe_rows(void) { return 0; }
