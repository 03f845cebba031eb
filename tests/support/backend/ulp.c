/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel that is off by one ulp: tests/support/backend/ulp.h.
 */
#include "tests/support/backend/ulp.h"

#include "ref/backend/store.h"

#include <stdlib.h>
#include <string.h>

static void bound(int n, int d, const float *q, const void *lo, const void *hi,
                  kv_dtype type, float *u) {
  uint32_t word;
  kv_kernels_best()->box_bound(n, d, q, lo, hi, type, u);
  if (n <= ULP_PAGE) return;
  memcpy(&word, &u[ULP_PAGE], sizeof word);
  word++;
  memcpy(&u[ULP_PAGE], &word, sizeof word);
}

static kv_kernels kernels;

kv_rc ulp_open(const kv_plan *plan, kv_store **out, kv_err *e) {
  kv_plan *own = malloc(sizeof *own);
  if (!own) return kv_no_memory(e, "a plan", sizeof *own);
  kernels = *kv_kernels_best();
  kernels.box_bound = bound;
  *own = *plan;
  own->kernels = &kernels;
  kv_rc rc = kv_backend_ref.open(own, out, e);
  if (rc) free(own);
  return rc;
}

void ulp_close(kv_store *s) {
  kv_plan *own = s ? (kv_plan *)s->plan : NULL;
  kv_backend_ref.close(s);
  free(own);
}
