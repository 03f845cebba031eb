/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/inspect/spectrum.h"

#include <lapacke.h>

#include "ref/ground/float.h"

bool kv_spectrum_can(void) { return true; }

kv_rc kv_eigenvalues(int width, double *a, double *value, kv_err *e) {
  /* By columns the lower half is the upper one. */
  lapack_int bad =
      LAPACKE_dsyev(LAPACK_COL_MAJOR, 'N', 'U', width, a, width, value);
  kv_float_ground();
  if (!bad) return KV_OK;
  if (bad == LAPACK_WORK_MEMORY_ERROR) return kv_no_memory(e, "eigenvalues", 0);
  return kv_fail(e, KV_INTERNAL,
                 "LAPACK finds no eigenvalues of a matrix of %d (dsyev: %d)",
                 width, (int)bad);
}
