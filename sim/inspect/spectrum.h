/* SPDX-License-Identifier: Apache-2.0
 *
 * How the squares of rows spread over directions: the squared singular values
 * of the matrix of all rows, as shares of their sum, in descending order. They
 * are the eigenvalues of the sum of the rows' outer products, which is added up
 * in binary64, row after row, and given to LAPACK; not centred, as singular
 * values are not. Where LAPACK was missing at configure there is none.
 *
 * The last digits are those of the LAPACK at hand: unlike all else that is
 * inspected they may differ from machine to machine.
 */
#ifndef KV_SIM_INSPECT_SPECTRUM_H
#define KV_SIM_INSPECT_SPECTRUM_H

#include <stdbool.h>

#include "ref/ground/err.h"

enum { KV_SPECTRUM_POINTS = 40 };

/* Directions 1, 2, 3, 4, 6, 8, 12, 16 .. and the last one. */
typedef struct kv_spectrum {
  int n; /* points; 0: not computed, or all rows are zero */
  int direction[KV_SPECTRUM_POINTS]; /* from 1, the largest */
  double share[KV_SPECTRUM_POINTS];  /* of this direction, */
  double sum[KV_SPECTRUM_POINTS];    /* of all up to it */
} kv_spectrum;

/* True if this kvreplay has a LAPACK; ask before kv_gram_open. */
bool kv_spectrum_can(void);

/* The sum of the outer products of rows. */
typedef struct kv_gram {
  int width, threads; /* elements of a row; >= 1 */
  double *sum;        /* [width][width], only the lower half is used */
} kv_gram;

/* Opens an empty sum. KV_RESOURCE: memory. */
kv_rc kv_gram_open(int width, int threads, kv_gram *out, kv_err *e);
void kv_gram_close(kv_gram *g); /* accepts zeroed */
/* Adds rows[n][width]. */
void kv_gram_add(kv_gram *g, int n, const double *rows);

/* The spectrum of the rows added; overwrites the sum. KV_INTERNAL: LAPACK gave
 * up; KV_RESOURCE: memory, or no LAPACK. */
kv_rc kv_spectrum_of(kv_gram *g, kv_spectrum *out, kv_err *e);

/* spectrum_lapack.c or spectrum_none.c: eigenvalues of
 * a symmetric matrix a[width][width], of which the lower half is read, into
 * value[width], ascending; a is overwritten. Fails as kv_spectrum_of. */
kv_rc kv_eigenvalues(int width, double *a, double *value, kv_err *e);

#endif
