/* SPDX-License-Identifier: Apache-2.0
 *
 * The law of a search for bytes: its replays, which compute no output, store
 * and read what a replay does; and a method which declares that lengths decide
 * what is stored (needs.lengths) stores the same when it is never shown a
 * query.
 */
#include "sim/laws/law_lane.h"

#include <inttypes.h>
#include <string.h>

/* kv_backend_cost counts everything, what views read as well. */
static kv_rc same_cost(const kv_result *seen, const kv_result *cost,
                       kv_err *e) {
  for (int i = 0; i < seen->n_steps; i++) {
    const kv_step_cost *a = &seen->step[i], *b = &cost->step[i];
    if (a->bytes == b->bytes && a->codes == b->codes && a->read == b->read)
      continue;
    return kv_fail(e, KV_DIFFERENT,
                   "step %d stores %" PRId64 " bytes and reads %" PRId64
                   "; with no output computed it stores %" PRId64
                   " and reads %" PRId64,
                   a->step, a->bytes, a->read, b->bytes, b->read);
  }
  if (seen->totals.peak == cost->totals.peak) return KV_OK;
  return kv_fail(e, KV_DIFFERENT,
                 "the peak is %" PRId64
                 " bytes, with no output computed %" PRId64,
                 seen->totals.peak, cost->totals.peak);
}

static kv_rc same_stored(const kv_result *seen, const kv_result *blind,
                         kv_err *e) {
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

/* Replays the case by a backend of searches, which must say the same. */
static kv_rc
searched(const kv_law_case *c, const kv_backend *b, const kv_result *seen,
         kv_rc (*same)(const kv_result *, const kv_result *, kv_err *),
         kv_err *e) {
  kv_law_case as = *c;
  kv_law_how how = {.threads = 1};
  kv_cell cell = {0};
  as.backend = b;
  kv_rc rc = kv_law_replay(&as, &how, &cell, e);
  if (!rc) rc = same(seen, &cell.result, e);
  kv_cell_close(&cell);
  return rc;
}

kv_rc kv_law_lengths(const kv_law_case *c, const kv_law_run *first, kv_err *e) {
  kv_law_how how = {.threads = 1};
  kv_cell seen = {0};
  bool asked;
  (void)first;
  kv_rc rc = says_so(c, &asked, e);
  if (rc) return rc;
  rc = kv_law_replay(c, &how, &seen, e);
  if (!rc) rc = searched(c, &kv_backend_cost, &seen.result, same_cost, e);
  if (!rc && asked)
    rc = searched(c, &kv_backend_blind, &seen.result, same_stored, e);
  kv_cell_close(&seen);
  return rc;
}
