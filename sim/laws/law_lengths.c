/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of needs.lengths: a method which declares that lengths decide what is
 * stored must store the same when it is never shown a query.
 */
#include "sim/laws/law_lane.h"

#include <inttypes.h>
#include <string.h>

static kv_rc compare(const kv_result *seen, const kv_result *blind, kv_err *e) {
  for (int i = 0; i < seen->n_steps; i++) {
    const kv_step_cost *a = &seen->step[i], *b = &blind->step[i];
    if (a->bytes == b->bytes && a->codes == b->codes) continue;
    return kv_fail(e, KV_DIFFERENT,
                   "step %d stores %" PRId64 " bytes, %" PRId64
                   " of them codes; with no query shown it stores %" PRId64
                   ", %" PRId64 ": needs.lengths must be false",
                   a->step, a->bytes, a->codes, b->bytes, b->codes);
  }
  if (seen->totals.peak == blind->totals.peak &&
      memcmp(&seen->totals.end, &blind->totals.end, sizeof(kv_bytes)) == 0)
    return KV_OK;
  return kv_fail(e, KV_DIFFERENT,
                 "the peak is %" PRId64 " bytes, with no query shown %" PRId64
                 ", or kinds of bytes differ: needs.lengths must be false",
                 seen->totals.peak, blind->totals.peak);
}

/* *out: the method declares needs.lengths with this budget. */
static kv_rc says_so(const kv_law_case *c, bool *out, kv_err *e) {
  kv_asked_cell asked = {.spec = c->spec, .entries = c->entries};
  kv_cell cell = {0};
  kv_rc rc = kv_cell_open(c->trace, c->prompt_len, kv_kernels_best(), &asked,
                          &cell, e);
  if (!rc && !cell.runs) rc = kv_fail(e, KV_REFUSED, "%s", cell.result.reason);
  *out = !rc && cell.plan.needs.lengths;
  kv_cell_close(&cell);
  return rc;
}

kv_rc kv_law_lengths(const kv_law_case *c, const kv_law_run *first, kv_err *e) {
  kv_law_how how = {.threads = 1};
  kv_law_case blindly = *c;
  kv_cell seen = {0}, blind = {0};
  bool asked;
  (void)first;
  kv_rc rc = says_so(c, &asked, e);
  if (rc || !asked) return rc;
  blindly.backend = &kv_backend_blind;
  rc = kv_law_replay(&blindly, &how, &blind, e);
  if (!rc) rc = kv_law_replay(c, &how, &seen, e);
  if (!rc) rc = compare(&seen.result, &blind.result, e);
  kv_cell_close(&seen);
  kv_cell_close(&blind);
  return rc;
}
