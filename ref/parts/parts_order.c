/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole ranking as a list, where a new order is stored: a stable radix sort
 * over the keys of rule 2, so equal scores stay as they were.
 */
#include "ref/ground/arith.h"
#include "ref/parts/parts.h"

enum { DIGIT = 8, BUCKETS = 1 << DIGIT };

/* One digit of the inverted key: larger scores come first. */
static void pass(const float *score, int n, int shift, const int32_t *from,
                 int32_t *to) {
  int start[BUCKETS + 1] = {0};
  for (int i = 0; i < n; i++)
    start[(~kv_key(score[from[i]]) >> shift & (BUCKETS - 1)) + 1]++;
  for (int b = 0; b < BUCKETS; b++) start[b + 1] += start[b];
  for (int i = 0; i < n; i++)
    to[start[~kv_key(score[from[i]]) >> shift & (BUCKETS - 1)]++] = from[i];
}

void kv_order(const float *score, int n, int32_t *list, int32_t *spare) {
  for (int shift = 0; shift < 32; shift += 2 * DIGIT) {
    pass(score, n, shift, list, spare);
    pass(score, n, shift + DIGIT, spare, list);
  }
}
