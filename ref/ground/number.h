/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text and back, independent of the locale: for specifications,
 * parameters, JSON and tables. Text written here is the shortest that reads
 * back to the same bits, except for subnormal numbers. Nothing fails. A call
 * that reads or writes text makes and frees one locale object of the C library.
 */
#ifndef KV_REF_NUMBER_H
#define KV_REF_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

enum {
  KV_NUMBER = 32,        /* bytes for any text below, NUL included */
  KV_SHARE_ONE = 1 << 20 /* 1 as a share: shares are multiples of 2^-20 */
};

/* Reads a plain, finite decimal: digits, sign, point, exponent. Returns false
 * for any other text; *out is then undefined. */
bool kv_number_parse(const char *text, double *out);
/* x as a share, the nearest multiple of 2^-20, ties to even; |x| <= 2000
 * (asserted). */
int32_t kv_number_to_share(double x);

/* Each writes x, which must be finite (asserted), into out and returns out. */
const char *kv_number_real(double x, char out[KV_NUMBER]);
const char *kv_number_float(float x, char out[KV_NUMBER]);
const char *kv_number_share(int32_t share, char out[KV_NUMBER]);
/* Writes bytes >= 0 for people, three digits and a unit: 512, 12.3K, 4.56M (K =
 * 1024), rounded. Returns out. */
const char *kv_number_bytes(double bytes, char out[KV_NUMBER]);

#endif
