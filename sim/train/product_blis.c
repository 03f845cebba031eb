/* SPDX-License-Identifier: Apache-2.0
 *
 * Products by BLIS' sgemm: sim/train/product.h. Single-threaded: its barriers
 * spin, which shared processors do not forgive. Its small-matrix path stays on:
 * it is faster for a layer of a small model, and no bits are promised.
 */
#define _GNU_SOURCE 1
#include "config.h"

/* BLIS' header warns under -Wconversion. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#include KV_BLIS_H
#pragma GCC diagnostic pop

#include "sim/train/product.h"
#include <stdio.h>

void kv_product(long m, long n, long k, kv_matrix a, kv_matrix b, bool add,
                float *c) {
  float one = 1.0f, old = add ? 1.0f : 0.0f;
  rntm_t single = BLIS_RNTM_INITIALIZER;
  bli_rntm_set_num_threads(1, &single);
  bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, m, n, k, &one,
               (float *)a.data, a.row, a.column, (float *)b.data, b.row,
               b.column, &old, c, n, 1, NULL, &single);
}

const char *kv_product_by(void) {
  static char name[64];
  if (!name[0])
    snprintf(name, sizeof name, "BLIS %s", bli_info_get_version_str());
  return name;
}

bool kv_product_is_plain(void) { return false; }
