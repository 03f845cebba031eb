/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of matrices in binary32, by BLIS where the program has it
 * (product_blis.c), else by a plain kernel (product_plain.c) that is
 * slower. On the calling thread alone: whoever wants more has several
 * products at once. The same result each time on one machine; not the same
 * bits on every machine, as the order of the sums is the library's. So nothing
 * that is decided or promised may depend on it.
 */
#ifndef KV_SIM_TRAIN_PRODUCT_H
#define KV_SIM_TRAIN_PRODUCT_H

#include <stdbool.h>

/* A matrix whose element i, j is at data[i * row + j * column]; borrowed. */
typedef struct kv_matrix {
  const float *data;
  long row, column; /* floats */
} kv_matrix;

/* data[..][width] as a matrix, and its transpose. */
static inline kv_matrix kv_rows_of(const float *data, long width) {
  return (kv_matrix){data, width, 1};
}
static inline kv_matrix kv_turned(const float *data, long width) {
  return (kv_matrix){data, 1, width};
}

/* c[m][n] = a[m, k] b[k, n], added to what is there if `add`: c[i * n + j] is
 * the sum over x < k of a[i, x] b[x, j]. c overlaps neither. Cannot fail. */
void kv_product(long m, long n, long k, kv_matrix a, kv_matrix b, bool add,
                float *c);

/* Who multiplies: "BLIS 0.9.0", or "a plain kernel"; and whether it is the
 * latter, which `kvreplay train` says to be slow. */
const char *kv_product_by(void);
bool kv_product_is_plain(void);

#endif
