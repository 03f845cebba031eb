/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for a budget in bytes: sim/spec/budget.h. The ledger decides, and
 * what it said fixes the next probe, so that two searches find the same number
 * also where bytes do not grow steadily with entries. Bytes are nearly a
 * straight line over entries, so the next place is where the line between both
 * ends meets the budget: four to eight probes in place of a dozen halvings.
 */
#include "sim/spec/budget.h"

#include <assert.h>
#include <inttypes.h>

kv_rc kv_budget_refuse(const kv_budget *b, const char *least, int64_t bytes,
                       int64_t dense, kv_err *e) {
  bool sums = b->basis != KV_BASIS_END && b->basis != KV_BASIS_PEAK;
  double percent = dense > 0 ? 100.0 * (double)bytes / (double)dense : 0;
  return kv_fail(e, KV_REFUSED,
                 "the least legal %s takes %" PRId64 " of dense %" PRId64
                 " bytes%s (%.4g %%), more than %s",
                 least, bytes, dense, sums ? " summed over steps" : "", percent,
                 b->target);
}

int kv_budget_probes(int least, int most) {
  int n = least < most ? 2 : 1;
  for (int between = most - least; between > 1; between -= between / 2) n += 2;
  return n;
}

/* One end of what is still between: a place, and by how many bytes it exceeds
 * the budget. */
typedef struct end {
  int place;
  double over;
} end;

/* The place to try next, between both. Where numbers of bytes are so large that
 * an excess is rounded to none there is no line. */
static int next(const end *lo, const end *hi, bool halve) {
  int between = hi->place - lo->place;
  if (halve || lo->over > 0 || !(hi->over > 0)) return lo->place + between / 2;
  int step = (int)(between * (-lo->over / (hi->over - lo->over)));
  if (step < 1) step = 1;
  if (step > between - 1) step = between - 1;
  return lo->place + step;
}

/* An end that stays where it is a second time counts half (the Illinois rule).
 * What a line took less than half from is halved; so is what begins with places
 * that all fit exactly, among which a line cannot tell. */
static kv_rc narrow(const kv_budget *b, end lo, end hi, kv_probe *probe,
                    void *self, int *out, kv_err *e) {
  int64_t bytes, dense;
  int stayed = 0; /* the end that did: -1 lo, 1 hi */
  bool halve = false, level;
  while (hi.place - lo.place > 1) {
    int before = hi.place - lo.place, place = next(&lo, &hi, halve);
    kv_rc rc = probe(self, place, &bytes, &dense, e);
    if (rc) return rc;
    end now = {place, kv_budget_over(b, bytes, dense)};
    level = false;
    if (kv_budget_fits(b, bytes, dense)) {
      level = lo.over == 0 && now.over == 0;
      lo = now;
      if (stayed == 1) hi.over /= 2;
      stayed = 1;
    } else {
      hi = now;
      if (stayed == -1) lo.over /= 2;
      stayed = -1;
    }
    halve = level || (!halve && 2 * (hi.place - lo.place) > before);
  }
  *out = lo.place;
  return KV_OK;
}

kv_rc kv_budget_least(int most, kv_legal *legal, void *self, int *out,
                      kv_err *e) {
  int low = 0, high = 1;
  bool runs;
  kv_err why = {0};
  kv_rc rc = legal(self, most, &runs, e);
  if (rc || !runs) return rc ? rc : KV_REFUSED;
  for (;; low = high, high = high > most / 2 ? most : 2 * high) {
    if ((rc = legal(self, high, &runs, &why))) break;
    if (runs) break;
  }
  while (!rc && high - low > 1) {
    int middle = low + (high - low) / 2;
    rc = legal(self, middle, &runs, &why);
    if (runs)
      high = middle;
    else
      low = middle;
  }
  *out = high;
  return rc ? kv_fail(e, rc, "%s", why.text) : KV_OK;
}

kv_rc kv_budget_search(const kv_budget *b, int least, int most,
                       const char *named, kv_probe *probe, void *self, int *out,
                       kv_err *e) {
  assert(kv_budget_in_bytes(b) && "only bytes are searched for");
  int64_t bytes, dense;
  end lo = {least, 0}, hi = {most, 0};
  kv_rc rc;
  if (least < most) {
    if ((rc = probe(self, most, &bytes, &dense, e))) return rc;
    if (kv_budget_fits(b, bytes, dense)) {
      *out = most;
      return KV_OK;
    }
    hi.over = kv_budget_over(b, bytes, dense);
  }
  if ((rc = probe(self, least, &bytes, &dense, e))) return rc;
  if (!kv_budget_fits(b, bytes, dense))
    return kv_budget_refuse(b, named, bytes, dense, e);
  lo.over = kv_budget_over(b, bytes, dense);
  if (least > most) hi.place = least;
  return narrow(b, lo, hi, probe, self, out, e);
}
