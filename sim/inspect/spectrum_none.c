/* SPDX-License-Identifier: Apache-2.0
 *
 * Without LAPACK there is no spectrum, and nothing else is missing.
 */
#include "sim/inspect/spectrum.h"

bool kv_spectrum_can(void) { return false; }

static kv_rc none(kv_err *e) {
  return kv_fail(e, KV_RESOURCE,
                 "this kvreplay was built without LAPACK: "
                 "install liblapack-dev and configure again");
}

kv_rc kv_eigenvalues(int width, double *a, double *value, kv_err *e) {
  (void)width, (void)a, (void)value;
  return none(e);
}
