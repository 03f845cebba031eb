/* SPDX-License-Identifier: Apache-2.0
 *
 * DeltaKV.
 */
#include "ref/methods/deltakv.h"
#include "tests/support/rig.h"

int kv_test_deltakv(void) { return 0; }
