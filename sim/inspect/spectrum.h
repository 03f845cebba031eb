/* SPDX-License-Identifier: Apache-2.0
 *
 * Eigenvectors of a symmetric matrix, for `train palu`, by LAPACK
 * (spectrum_lapack.c); where it was missing at configure there are none
 * (spectrum_none.c). The last digits are those of the LAPACK at hand.
 */
#ifndef KV_SIM_INSPECT_SPECTRUM_H
#define KV_SIM_INSPECT_SPECTRUM_H

#include <stdbool.h>

#include "ref/ground/err.h"

/* True if this kvreplay has a LAPACK. */
bool kv_spectrum_can(void);

/* Eigenvalues of a symmetric matrix a[width][width], of which the lower half is
 * read, into value[width], ascending; a becomes the eigenvectors, that of
 * value[i] its row i. KV_INTERNAL: LAPACK gave up; KV_RESOURCE: memory, or no
 * LAPACK. */
kv_rc kv_eigenvectors(int width, double *a, double *value, kv_err *e);

#endif
