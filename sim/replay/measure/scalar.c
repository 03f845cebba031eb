/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a run: sim/replay/measure/result.h.
 */
#include "sim/replay/measure/result.h"

#include <math.h>
#include <string.h>

#define ROW(name, unit, member, type, combine)                                 \
  {                                                                            \
    name, unit, offsetof(kv_totals, member), KV_SCALAR_##type,                 \
        KV_COMBINE_##combine                                                   \
  }

const kv_scalar kv_scalars[] = {
    ROW("kept", "entries", kept, REAL, EXACT),
    ROW("kept_min", "entries", kept_min, INT, EXACT),
    ROW("kept_max", "entries", kept_max, INT, EXACT),
    ROW("attended", "entries", attended, REAL, EXACT),
    ROW("bytes.end.codes_only", "bytes", codes_end, WHOLE, EXACT),
    ROW("bytes.mean", "bytes", mean, REAL, STEPS),
    ROW("bytes.peak", "bytes", peak, WHOLE, EXACT),
    ROW("bytes.mti", "byte steps", mti, WHOLE, STEPS),
    ROW("bytes.read", "bytes a step", read, REAL, STEPS),
    ROW("bytes.scanned", "bytes a step", scanned, REAL, STEPS),
    ROW("bytes.asset", "bytes", asset, WHOLE, STEPS),
    ROW("bytes.fetched", "bytes", fetched, WHOLE, EXACT),
    ROW("bytes.moved", "bytes", moved, WHOLE, EXACT),
    ROW("bytes.codes_only.mean", "bytes", codes_mean, REAL, STEPS),
    ROW("bytes.codes_only.peak", "bytes", codes_peak, WHOLE, EXACT),
    ROW("verbs", "records", verbs, WHOLE, EXACT),
    ROW("kr", "of dense", kr, REAL, STEPS),
    ROW("cr", "of dense", cr, REAL, STEPS),
    ROW("needle_kept", "of dense", needle_kept, REAL, STEPS),
    ROW("needle_worst", "of dense", needle_worst, REAL, STEPS)};
const int kv_n_scalars = sizeof kv_scalars / sizeof *kv_scalars;

int64_t kv_scalar_bits(const kv_totals *t, const kv_scalar *s) {
  const char *at = (const char *)t + s->offset;
  int64_t bits = 0x7ff8000000000000;
  double x = 0;
  int n;
  switch (s->type) {
  case KV_SCALAR_INT:
    memcpy(&n, at, sizeof n);
    return n;
  case KV_SCALAR_REAL:
    memcpy(&x, at, sizeof x);
    if (isnan(x)) return bits;
    break;
  case KV_SCALAR_WHOLE:
    break;
  }
  memcpy(&bits, at, sizeof bits);
  return bits;
}

double kv_scalar_get(const kv_totals *t, const kv_scalar *s) {
  int64_t bits = kv_scalar_bits(t, s);
  double x;
  if (s->type != KV_SCALAR_REAL) return bits < 0 ? (double)NAN : (double)bits;
  memcpy(&x, &bits, sizeof x);
  return x;
}

void kv_scalar_set(kv_totals *t, const kv_scalar *s, int64_t bits) {
  char *at = (char *)t + s->offset;
  int n = (int)bits;
  if (s->type == KV_SCALAR_INT)
    memcpy(at, &n, sizeof n);
  else
    memcpy(at, &bits, sizeof bits);
}
