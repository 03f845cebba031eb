/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for a budget in bytes: sim/spec/budget.h. The ledger decides, by
 * one fixed sequence of probes, so that two searches find the same number also
 * where bytes do not grow steadily with entries.
 */
#include "sim/spec/budget.h"

#include <assert.h>
#include <inttypes.h>

static kv_rc over(const kv_budget *b, const char *least, int64_t bytes,
                  int64_t dense, kv_err *e) {
  bool sums = b->basis == KV_BASIS_MEAN || b->basis == KV_BASIS_READ;
  double percent = dense > 0 ? 100.0 * (double)bytes / (double)dense : 0;
  return kv_fail(e, KV_REFUSED,
                 "the least legal %s takes %" PRId64 " of dense %" PRId64
                 " bytes%s (%.4g %%), more than %s",
                 least, bytes, dense, sums ? " summed over steps" : "", percent,
                 b->target);
}

int kv_budget_probes(int least, int most) {
  int n = least < most ? 2 : 1;
  for (int between = most - least; between > 1; between -= between / 2) n++;
  return n;
}

kv_rc kv_budget_search(const kv_budget *b, int least, int most,
                       const char *named, kv_probe *probe, void *self, int *out,
                       kv_err *e) {
  assert(kv_budget_in_bytes(b) && "only bytes are searched for");
  int64_t bytes, dense;
  int lo = least, hi = most;
  kv_rc rc;
  if (lo < hi) {
    if ((rc = probe(self, hi, &bytes, &dense, e))) return rc;
    if (kv_budget_fits(b, bytes, dense)) {
      *out = hi;
      return KV_OK;
    }
  }
  if ((rc = probe(self, lo, &bytes, &dense, e))) return rc;
  if (!kv_budget_fits(b, bytes, dense)) return over(b, named, bytes, dense, e);
  while (hi - lo > 1) {
    int mid = lo + (hi - lo) / 2;
    if ((rc = probe(self, mid, &bytes, &dense, e))) return rc;
    if (kv_budget_fits(b, bytes, dense)) {
      lo = mid;
    } else {
      hi = mid;
    }
  }
  *out = lo;
  return KV_OK;
}
