/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_top for 64-bit hashes; used by the method random.
 */
#include "ref/parts/parts.h"

/* The k-th largest, 1 <= k <= n, and how many of that value are in. */
static uint64_t nth(const uint64_t *hash, int n, int k, int *equals) {
  uint64_t prefix = 0, mask = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    int count[256] = {0}, b = 255;
    for (int i = 0; i < n; i++)
      if ((hash[i] & mask) == prefix) count[hash[i] >> shift & 255]++;
    for (; count[b] < k; b--) k -= count[b];
    prefix |= (uint64_t)b << shift;
    mask |= (uint64_t)255 << shift;
  }
  *equals = k;
  return prefix;
}

void kv_top_hash(const uint64_t *hash, int n, int k, bool *keep) {
  int equals = 0;
  uint64_t cut = k > 0 && k < n ? nth(hash, n, k, &equals) : 0;
  for (int i = 0; i < n; i++) {
    if (k <= 0 || k >= n)
      keep[i] = k > 0;
    else
      keep[i] = hash[i] > cut || (hash[i] == cut && equals-- > 0);
  }
}
