/* SPDX-License-Identifier: Apache-2.0
 *
 * Without LAPACK there are no directions, and nothing else is missing.
 */
#include "sim/inspect/spectrum.h"

bool kv_spectrum_can(void) { return false; }

kv_rc kv_eigenvectors(int width, double *a, double *value, kv_err *e) {
  (void)width, (void)a, (void)value;
  return kv_fail(e, KV_RESOURCE,
                 "this kvreplay was built without LAPACK: "
                 "install liblapack-dev and configure again");
}
