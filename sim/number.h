/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text and back, whatever the locale: what is written reads back
 * to the same bits and is the shortest that does. Nothing here allocates
 * beyond the C library's locale object; nothing fails.
 */
#ifndef KV_SIM_NUMBER_H
#define KV_SIM_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

enum {
  KV_NUMBER = 32,        /* bytes for any of the texts below */
  KV_SHARE_ONE = 1 << 20 /* 1 as a share: shares are multiples of 2^-20 */
};

/* A plain decimal: digits, sign, point, exponent; finite. False otherwise. */
bool kv_number_parse(const char *text, double *out);
/* The nearest multiple of 2^-20, ties to even; |x| <= 2000. */
int32_t kv_number_to_share(double x);

/* Each returns out. x is finite. */
const char *kv_number_real(double x, char out[KV_NUMBER]);
const char *kv_number_float(float x, char out[KV_NUMBER]);
const char *kv_number_share(int32_t share, char out[KV_NUMBER]);
/* Three digits and a unit, for people: 512, 12.3K, 4.56M (K = 1024). */
const char *kv_number_bytes(double bytes, char out[KV_NUMBER]);

#endif
